// Everything that we know of the insides of Node and of Express, beyond what they document: in one
// file, however long, as its spec names what has changed when a release of Node changes any of it.
import {
  IncomingMessage,
  type OutgoingHttpHeader,
  type OutgoingHttpHeaders,
  OutgoingMessage,
  ServerResponse
} from 'node:http'
import { Socket } from 'node:net'

/** What `writeHead` is called with. */
export type HeadArguments = [
  status: number,
  reason?: string | OutgoingHttpHeaders | OutgoingHttpHeader[],
  headers?: OutgoingHttpHeaders | OutgoingHttpHeader[]
]

/**
 * Overloads are of no use: arguments are passed on. Node and express-session ask for a missing head
 * by `_implicitHeader`.
 */
export interface ResponseMethods {
  readonly writeHead: (this: ServerResponse, ...args: unknown[]) => ServerResponse
  readonly write: (this: ServerResponse, ...args: unknown[]) => boolean
  readonly end: (this: ServerResponse, ...args: unknown[]) => ServerResponse
  readonly flushHeaders: (this: ServerResponse) => void
  readonly setHeader: (
    this: ServerResponse,
    name: string,
    value: OutgoingHttpHeader
  ) => ServerResponse
  readonly getHeader: (this: ServerResponse, name: string) => OutgoingHttpHeader | undefined
  readonly destroy: (this: ServerResponse, error?: Error) => ServerResponse
  readonly _implicitHeader: (this: ServerResponse) => void
}

export const METHOD_NAMES: readonly (keyof ResponseMethods)[] = [
  'writeHead',
  'write',
  'end',
  'flushHeaders',
  'setHeader',
  'getHeader',
  'destroy',
  '_implicitHeader'
]

/** The methods of the last response: mostly those of the next, so waiting calls share them. */
let latest: ResponseMethods | undefined

export function methodsOf(res: ServerResponse): ResponseMethods {
  const { writeHead, write, end, flushHeaders, setHeader, getHeader, destroy, _implicitHeader } =
    res as unknown as ResponseMethods
  if (
    latest !== undefined &&
    latest.writeHead === writeHead &&
    latest.write === write &&
    latest.end === end &&
    latest.flushHeaders === flushHeaders &&
    latest.setHeader === setHeader &&
    latest.getHeader === getHeader &&
    latest.destroy === destroy &&
    latest._implicitHeader === _implicitHeader
  )
    return latest
  const found: ResponseMethods = {
    writeHead,
    write,
    end,
    flushHeaders,
    setHeader,
    getHeader,
    destroy,
    _implicitHeader
  }
  // A method of one response alone must not be kept alive by us.
  if (!METHOD_NAMES.some(name => Object.hasOwn(res, name))) latest = found
  return found
}

/** The oldest Node that we run on does not have all of them. */
export const HEAD_METHODS = [
  'removeHeader',
  'hasHeader',
  'getHeaders',
  'getHeaderNames',
  'getRawHeaderNames',
  'appendHeader',
  'setHeaders'
] as const

/** The methods that send interim responses (1xx). */
export const INTERIM_METHODS = [
  'writeContinue',
  'writeProcessing',
  'writeEarlyHints',
  'writeInformation'
] as const

/** From where Node defines it: code that was loaded before us may have patched `ServerResponse`. */
const NATIVE_WRITE = OutgoingMessage.prototype.write as ResponseMethods['write']

/**
 * If `write` is not patched in front, memory may be reused after a write. A logger keeps chunks,
 * and would find others' messages in them.
 */
export function hasNativeWrite(res: ServerResponse): boolean {
  return res.write === NATIVE_WRITE
}

/** From where Node defines it, and from where Bun does: responses may have one of their own. */
const NEEDS_DRAIN = [ServerResponse.prototype, OutgoingMessage.prototype]
  .map(prototype => Object.getOwnPropertyDescriptor(prototype, 'writableNeedDrain')?.get)
  .find(getter => getter !== undefined)

/**
 * Whether there is room for more after a write, for which `write` has returned `said`. Middleware
 * in front that patches `write`, such as the snippet that logs bodies, need not hand on what Node's
 * has returned, so Node itself is asked. Only of a response that is compressed in front, `false` is
 * believed: what is compressed waits in a queue that Node knows nothing of.
 */
export function hasRoomAfter(res: ServerResponse, said: unknown): boolean {
  if (said === false && OutgoingMessage.prototype.hasHeader.call(res, 'Content-Encoding'))
    return false
  return NEEDS_DRAIN?.call(res) !== true
}

/** Counts `cork` calls of the response. (Node 20's `writableCorked` counts the socket's, too.) */
const CORKED = Object.getOwnPropertySymbols(new OutgoingMessage()).find(
  ({ description }) => description === 'corked'
) as keyof ServerResponse

/** Whether Node makes one chunk of what is written in a tick, as it does from 26.9 on. */
const GATHERS_CHUNKS = String(OutgoingMessage.prototype.end).includes('kChunkedBuffer')

/** Bytes up to which `writeChunk` copies what it is given. */
export const MOST_COPIED = 4096

/**
 * As Node's own `write`, which hands a chunk on in four pieces: here, small ones go in one (Node
 * 20, an event a tick: 13.9 us of CPU, not 15.1).
 */
export function writeChunk(res: ServerResponse, args: readonly unknown[]): boolean {
  const [bytes, ...others] = args
  const isSmall = bytes instanceof Uint8Array && bytes.length > 0 && bytes.length <= MOST_COPIED
  if (!isSmall) return NATIVE_WRITE.apply(res, args as unknown[])
  // Node sends the first chunk with what follows in this tick, which may not come through us.
  const isFirst = GATHERS_CHUNKS && !hasSentHead(res)
  if (!res.chunkedEncoding || !hasMadeHead(res) || isFirst || (res[CORKED] as unknown) !== 0)
    return NATIVE_WRITE.call(res, Buffer.from(bytes), ...others)
  // Without `chunkedEncoding`, Node sends what is written as it is.
  res.chunkedEncoding = false
  try {
    return NATIVE_WRITE.call(res, framed(bytes), ...others)
  } finally {
    res.chunkedEncoding = true
  }
}

/** As a chunk of a body (RFC 9112, section 7.1). */
function framed(bytes: Uint8Array): Buffer {
  const size = `${bytes.length.toString(16)}\r\n`
  const chunk = Buffer.allocUnsafe(size.length + bytes.length + 2)
  chunk.write(size, 'latin1')
  chunk.set(bytes, size.length)
  chunk.write('\r\n', size.length + bytes.length, 'latin1')
  return chunk
}

const OWN_HEADERS_SENT = Object.getOwnPropertyDescriptor(ServerResponse.prototype, 'headersSent')
const HEADERS_SENT =
  OWN_HEADERS_SENT ?? Object.getOwnPropertyDescriptor(OutgoingMessage.prototype, 'headersSent')

/**
 * Whether the methods of responses ask the property `headersSent` themselves, and must get an
 * answer of their own: those of Bun do, in whose responses it is another one.
 */
export const ASKS_HEADERS_SENT = OWN_HEADERS_SENT !== undefined

/** Node has made the head: from here on its own `headersSent` says so. */
export function hasMadeHead(res: ServerResponse): boolean {
  return HEADERS_SENT?.get?.call(res) === true
}

/** The head has left with the first bytes behind it, or by itself. */
function hasSentHead(res: ServerResponse): boolean {
  return (res as unknown as { readonly _headerSent: boolean })._headerSent
}

/** The response whose turn it is on a connection. */
export function responseOnTurn(socket: Socket): ServerResponse | undefined {
  return (socket as { _httpMessage?: ServerResponse | null })._httpMessage ?? undefined
}

/**
 * Bytes that the operating system has not taken. Only the handle tells how much of a large write
 * has left.
 */
export function pendingBytes({ socket }: IncomingMessage, res: ServerResponse): number {
  if (socket.destroyed) return 0
  const handle = (res.socket as { _handle?: { writeQueueSize?: number } | null } | null)?._handle
  return (res.writableLength ?? 0) + (handle?.writeQueueSize ?? 0)
}

/** Nothing reaches the client any more, although Node tells that in a later tick. */
export function isBroken({ socket }: IncomingMessage): boolean {
  return socket.destroyed || Boolean(socket.errored)
}

/** From Node 24 on, a socket that closes destroys the responses that are queued on it. */
export function isAbortedByNode(error: Error | undefined): boolean {
  return isReset(error) && error?.message === 'aborted'
}

/** Whether it is the error with which Node destroys a request whose connection has gone. */
export function isReset(error: Error | undefined): boolean {
  return error !== undefined && 'code' in error && error.code === 'ECONNRESET'
}

/**
 * Whether Node destroys a socket, in the context of its last writer: with an error that has a code,
 * or when its client has ended it and all is out.
 */
export function isDestroyedByNode(socket: Socket, error: Error | undefined): boolean {
  return error === undefined ? socket.writableFinished && !socket.destroyed : 'code' in error
}

const firstFile: typeof Error.prepareStackTrace = (_, sites) => sites[0]?.getFileName()

/** By `Reflect.set`, which does not throw if an application has frozen these properties. */
function setTraces(limit: number, prepare: typeof Error.prepareStackTrace): void {
  Reflect.set(Error, 'stackTraceLimit', limit)
  Reflect.set(Error, 'prepareStackTrace', prepare)
}

/** Whether Node itself called `callee`: its modules begin with `node:`. */
export function isCalledByNode(callee: (...args: never[]) => unknown): boolean {
  const { prepareStackTrace, stackTraceLimit } = Error
  const at: { stack?: unknown } = {}
  try {
    setTraces(1, firstFile)
    Error.captureStackTrace(at, callee)
    return String(at.stack).startsWith('node:')
  } finally {
    setTraces(stackTraceLimit, prepareStackTrace)
  }
}

/** Whether Node drops the body, and destroys the request, when the response ends. */
export function dropsBody(req: IncomingMessage): boolean {
  if ((req as ReadRequest)._consuming === true) return false
  return !req.readableEnded && req.readableFlowing === null && req.listenerCount('readable') === 0
}

/** `_consuming`: the body is being read, so Node does not drop it. */
interface ReadRequest extends IncomingMessage {
  _consuming?: boolean
}

/** Keeps a body that has come whole for an endpoint that reads it after the response has ended. */
export function keepBody(req: IncomingMessage): void {
  if (req.complete) (req as ReadRequest)._consuming = true
}

/** Plain values, which Node does not read any more. Redefining them would cost kilobytes. */
export function setEnds(res: ServerResponse, isEnded: boolean, isClosed: boolean): void {
  res.destroyed = isClosed
  ;(res as { finished: boolean }).finished = isEnded
}

/** As it looked before its client left: `close` of the response tells when it is over. */
export function maskRequest(req: IncomingMessage): void {
  req.aborted = false
  req.destroyed = false
}

/** Getters of a response that tell the state of its socket. They are on its prototypes. */
export type StateName =
  'closed' | 'writableEnded' | 'writableFinished' | 'writableNeedDrain' | 'errored'

/**
 * On the response itself, as Express gives it another prototype; from Node 24 on, V8 makes a table
 * (2.5 KB) of an object with a getter that is given one late.
 */
export function maskState(res: ServerResponse, state: Record<StateName, PropertyDescriptor>): void {
  if (!Object.hasOwn(res, 'closed')) Object.defineProperties(res, state)
}

/** From Node 24 on, objects that are given another prototype share hidden classes. */
const SHARES_CLASSES = Number.parseInt(process.versions.v8) > 12

/**
 * Express gives each request and each response another prototype. Before Node 24, V8 then copies
 * the hidden class of that one object, with all its fifty properties, for each property that is
 * added, and code that is optimised for a class does not fit the next object. Deleting a property
 * and setting it again (2 us) makes the object a plain hash table, in which further properties cost
 * little: with this, a small call behind us takes 165 us of CPU, and 275 us without (Node 20,
 * Express 5, a hand-written endpoint that takes 60 us by itself, connections in memory).
 *
 * @param born the prototype of objects that were given no other: they share hidden classes.
 * @param property an own property of the object.
 */
export function expectProperties(object: object, born: object, property: string): void {
  if (SHARES_CLASSES || Object.getPrototypeOf(object) === born) return
  const descriptor = Object.getOwnPropertyDescriptor(object, property)
  if (descriptor?.configurable !== true || !Object.isExtensible(object)) return
  Reflect.deleteProperty(object, property)
  Object.defineProperty(object, property, descriptor)
}

/** A request and its response that are about to be read and patched. */
export function expectPatches(req: IncomingMessage, res: ServerResponse): void {
  expectProperties(req, IncomingMessage.prototype, 'aborted')
  expectProperties(res, ServerResponse.prototype, 'sendDate')
}

/** Reading a property through an inheriting object makes a plain object of a table. */
const readThrough = (object: { readonly destroyed?: unknown }): unknown => object.destroyed

/** They may stay for long after their client has gone, hardly changed. */
export function compact(req: IncomingMessage, res: ServerResponse): void {
  compactHead(res)
  // In these cases they are no hash tables.
  if (SHARES_CLASSES || Object.getPrototypeOf(req) === IncomingMessage.prototype) return
  // As hash tables they would take 1.4 KB more (Node 20). This takes 6 to 20 us.
  for (const object of [req, res]) readThrough(Object.create(object) as object)
}

/**
 * Node concatenates a head from thirty strings; counting its bytes makes one, 0.2 KB and not 1 KB.
 */
function compactHead(res: ServerResponse): void {
  const { _header: head } = res as unknown as { readonly _header: string | null }
  if (head !== null) Buffer.byteLength(head)
}

/** A closed socket: the stream states of all closed sockets look alike. */
const CLOSED = new Socket().destroy() as Socket & {
  readonly _readableState: unknown
  readonly _writableState: unknown
}

/** The prototype of stand-ins for sockets that have closed; `destroy` is their method. */
export function closedSockets(destroy: Socket['destroy']): object {
  const { _readableState, _writableState } = CLOSED
  return Object.create(Socket.prototype, {
    _readableState: { value: _readableState },
    _writableState: { value: _writableState },
    destroy: { value: destroy, writable: true, configurable: true }
  }) as object
}

/** Own properties of Node's sockets, and those that its HTTP server adds. */
export const OF_NODE: ReadonlySet<PropertyKey> = new Set([
  ...Reflect.ownKeys(CLOSED),
  ...[
    'on',
    'addListener',
    'prependListener',
    'setEncoding',
    'parser',
    '_paused',
    '_httpMessage',
    'destroy'
  ]
])
/** Those of them that a stand-in keeps, as they are still read from a closed socket. */
const TOLD = /^(?:server|_server|_peername|_sockname|timeout|Symbol\(kBytes\w+\))$/

/**
 * A stand-in for a closed socket, with what is still read from it. `undefined`: not closed, or of
 * another kind. @param prototype from `closedSockets`.
 */
export function standInFor<T extends object>(socket: Socket, prototype: T): T | undefined {
  if (!socket.destroyed || Object.getPrototypeOf(socket) !== Socket.prototype) return undefined
  const standIn = Object.create(prototype) as T
  for (const key of Reflect.ownKeys(socket)) {
    if (OF_NODE.has(key) && !TOLD.test(String(key))) continue
    const property = Object.getOwnPropertyDescriptor(socket, key) as PropertyDescriptor
    Object.defineProperty(standIn, key, property)
  }
  return standIn
}

const NOTHING = (): void => undefined

/** Lets go of a socket where Node keeps it for a request and its response. */
export function replaceSocket(req: IncomingMessage, res: ServerResponse, socket: Socket): void {
  Object.assign(req, { socket, client: socket })
  // `_onPendingData` refers to the socket, to tell it how much waits for it.
  Object.assign(res, { socket, _onPendingData: NOTHING })
}

/** Node's listener that, at the end of a response, gives the socket to the next one. */
export function nextTurnListener(res: ServerResponse): (() => void) | undefined {
  const listeners = res.listeners('finish') as (() => void)[]
  return listeners.find(({ name }) => name === 'bound resOnFinish')
}
