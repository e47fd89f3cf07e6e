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
 * The methods that stand between an endpoint and its head and body. Overloads are of no use here:
 * arguments are handed on as they came. `_implicitHeader` is how Node, and what takes after it
 * (express-session), asks for a head that nobody has written.
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

/** What stood in the last response: mostly the same as in this one, so a waiting call shares it. */
let latest: ResponseMethods | undefined

/** The methods of a response as they stand. */
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

/**
 * The methods of a response that have to do with its head only. Some are younger than the oldest
 * Node that we run on.
 */
export const HEAD_METHODS = [
  'removeHeader',
  'hasHeader',
  'getHeaders',
  'getHeaderNames',
  'getRawHeaderNames',
  'appendHeader',
  'setHeaders'
] as const

/** Interim answers. */
export const INTERIM_METHODS = [
  'writeContinue',
  'writeProcessing',
  'writeEarlyHints',
  'writeInformation'
] as const

/** Where Node has it: what is loaded before us patches `ServerResponse`. */
const NATIVE_WRITE = OutgoingMessage.prototype.write as ResponseMethods['write']

/**
 * Whether nobody in front has patched `write`: then the memory of what is written may be used again
 * once Node is done with it. What logs responses keeps their chunks, and would find other clients'
 * messages in them.
 */
export function hasNativeWrite(res: ServerResponse): boolean {
  return res.write === NATIVE_WRITE
}

/** Counts who holds back what is written. (Node 20's `writableCorked` counts the socket's, too.) */
const CORKED = Object.getOwnPropertySymbols(new OutgoingMessage()).find(
  ({ description }) => description === 'corked'
) as keyof ServerResponse

/** Whether Node makes one chunk of what is written in a tick, as it does from 26.9 on. */
const GATHERS_CHUNKS = String(OutgoingMessage.prototype.end).includes('kChunkedBuffer')

/** Bytes up to which `writeChunk` copies what it is given. */
export const MOST_COPIED = 4096

/**
 * Writes to a response whose `write` is Node's own, as that does. Node hands a chunk to the socket
 * in four pieces, with its size and two line breaks, which takes longer than all that we do for an
 * event: small ones leave in one (Node 20, one event a tick: 15.1 us of CPU so far, 13.9 us so).
 */
export function writeChunk(res: ServerResponse, args: readonly unknown[]): boolean {
  const [bytes, ...others] = args
  const isSmall = bytes instanceof Uint8Array && bytes.length > 0 && bytes.length <= MOST_COPIED
  if (!isSmall) return NATIVE_WRITE.apply(res, args as unknown[])
  // With what follows in this tick: the beginning of a response that is none of ours, say.
  const isFirst = GATHERS_CHUNKS && !hasSentHead(res)
  if (!res.chunkedEncoding || !hasMadeHead(res) || isFirst || (res[CORKED] as unknown) !== 0)
    return NATIVE_WRITE.call(res, Buffer.from(bytes), ...others)
  // What is written in this state goes out as it is.
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

/** Node has made the head: from here on its own `headersSent` says so. */
export function hasMadeHead(res: ServerResponse): boolean {
  return (res as unknown as { readonly _header: string | null })._header !== null
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
 * What a response has given to its socket, and the operating system has not taken yet. The number
 * falls as the client reads. Only the handle tells how much of a large write has left: Node counts
 * it whole until it has left to the end.
 */
export function pendingBytes({ socket }: IncomingMessage, res: ServerResponse): number {
  if (socket.destroyed) return 0
  const handle = (res.socket as { _handle?: { writeQueueSize?: number } | null } | null)?._handle
  return (res.writableLength ?? 0) + (handle?.writeQueueSize ?? 0)
}

/**
 * Nothing that is written reaches the client any more, although nobody has been told yet: Node
 * tells in a later tick, and calls back for nothing that was written in between.
 */
export function isBroken({ socket }: IncomingMessage): boolean {
  return socket.destroyed || Boolean(socket.errored)
}

/**
 * From Node 24 on, a socket that closes destroys the responses whose turn has not come: its client
 * has left, and we hear of that ourselves.
 */
export function isAbortedByNode(error: Error | undefined): boolean {
  return isReset(error) && error?.message === 'aborted'
}

/** What Node destroys a request with whose connection has gone. */
export function isReset(error: Error | undefined): boolean {
  return error !== undefined && 'code' in error && error.code === 'ECONNRESET'
}

/**
 * Node destroys a socket too, and does it in the name of whoever wrote last: when it fails, with an
 * error that has a code; and when its client has ended it and the last byte is out.
 */
export function isDestroyedByNode(socket: Socket, error: Error | undefined): boolean {
  return error === undefined ? socket.writableFinished && !socket.destroyed : 'code' in error
}

const firstFile: typeof Error.prepareStackTrace = (_, sites) => sites[0]?.getFileName()

/** Throws nothing where an application has frozen them. */
function setTraces(limit: number, prepare: typeof Error.prepareStackTrace): void {
  Reflect.set(Error, 'stackTraceLimit', limit)
  Reflect.set(Error, 'prepareStackTrace', prepare)
}

/**
 * Whether it is Node that has called a function which runs now, and not what is loaded by Node: its
 * own modules have names with `node:`.
 */
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

/**
 * With the end of a response Node drops a body that nobody has begun to read: the request is
 * destroyed then, which is no news of its client.
 */
export function dropsBody(req: IncomingMessage): boolean {
  if ((req as ReadRequest)._consuming === true) return false
  return !req.readableEnded && req.readableFlowing === null && req.listenerCount('readable') === 0
}

/** Whether somebody has begun to read a body: what Node asks before it drops one. */
interface ReadRequest extends IncomingMessage {
  _consuming?: boolean
}

/** A body that has come whole stays for who reads it behind the end of the response. */
export function keepBody(req: IncomingMessage): void {
  if (req.complete) (req as ReadRequest)._consuming = true
}

/**
 * What a response keeps as plain values, and does not look at any more once its socket is gone.
 * They are set, not redefined, because that would cost every waiting call some kilobytes.
 */
export function setEnds(res: ServerResponse, isEnded: boolean, isClosed: boolean): void {
  res.destroyed = isClosed
  ;(res as { finished: boolean }).finished = isEnded
}

/**
 * A request whose client has gone looks as it did before; the response's close tells when it is
 * over.
 */
export function maskRequest(req: IncomingMessage): void {
  req.aborted = false
  req.destroyed = false
}

/** A response's getters that tell of its socket. Its prototypes have them, and not it itself. */
export type StateName =
  'closed' | 'writableEnded' | 'writableFinished' | 'writableNeedDrain' | 'errored'

/**
 * Lets getters of a response tell something else. They are its own, as Express gives a response
 * another prototype with every application that it enters; and as from Node 24 on V8 makes a hash
 * table (2.5 KB) of one that has a getter of its own and is given another prototype late.
 */
export function maskState(res: ServerResponse, state: Record<StateName, PropertyDescriptor>): void {
  if (!Object.hasOwn(res, 'closed')) Object.defineProperties(res, state)
}

/**
 * Where an object that has been given another prototype shares its hidden classes, as all others
 * do: from Node 24 on.
 */
const SHARES_CLASSES = Number.parseInt(process.versions.v8) > 12

/**
 * Express gives each request and each response another prototype. Before Node 24, V8 then copies
 * the hidden class of that one object, with all its fifty properties, for each property that
 * anybody adds, and nothing that is optimised for a class knows the next object. A property that is
 * deleted and set again (2 us) makes the object a plain hash table, in which the next ones cost
 * little: a small call behind us takes 165 us of CPU so, and 275 us without (Node 20, Express 5, a
 * hand-written endpoint that takes 60 us by itself, connections in memory).
 *
 * @param born the prototype of one that was given no other: its hidden classes are shared.
 * @param property one that it has itself.
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

/** V8 makes a plain object again of a hash table behind which it finds a property of another. */
const readThrough = (object: { readonly destroyed?: unknown }): unknown => object.destroyed

/**
 * A request and its response go on for long behind a client that has gone, and hardly anybody adds
 * anything to them any more: their memory shall be no larger than it has to be.
 */
export function compact(req: IncomingMessage, res: ServerResponse): void {
  compactHead(res)
  // Else they are no hash tables.
  if (SHARES_CLASSES || Object.getPrototypeOf(req) === IncomingMessage.prototype) return
  // As hash tables they would take 1.4 KB more (Node 20). This takes 6 to 20 us.
  for (const object of [req, res]) readThrough(Object.create(object) as object)
}

/**
 * Node puts a head together from some thirty strings, and keeps them all. V8 makes one of them, of
 * 0.2 KB in place of 1 KB, as soon as its bytes are counted.
 */
function compactHead(res: ServerResponse): void {
  const { _header: head } = res as unknown as { readonly _header: string | null }
  if (head !== null) Buffer.byteLength(head)
}

/** One that is closed: the streams of all closed sockets look alike. */
const CLOSED = new Socket().destroy() as Socket & {
  readonly _readableState: unknown
  readonly _writableState: unknown
}

/** The prototype of stand-ins for sockets that have closed, which are destroyed as it says. */
export function closedSockets(destroy: Socket['destroy']): object {
  const { _readableState, _writableState } = CLOSED
  return Object.create(Socket.prototype, {
    _readableState: { value: _readableState },
    _writableState: { value: _writableState },
    destroy: { value: destroy, writable: true, configurable: true }
  }) as object
}

/** What Node's sockets have of their own, and what its server for HTTP adds. */
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
/** Of these, what is told of a socket when it has closed. */
const TOLD = /^(?:server|_server|_peername|_sockname|timeout|Symbol\(kBytes\w+\))$/

/**
 * Makes a stand-in for a socket that has closed: it tells what that one would, and what others have
 * noted on it, and keeps nothing else of it. `undefined`: it is of a kind that says more.
 *
 * @param prototype from `closedSockets`.
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
  // Tells the socket how much waits for it.
  Object.assign(res, { socket, _onPendingData: NOTHING })
}

/** What makes way, at the end of a response, for the next one of its socket. */
export function nextTurnListener(res: ServerResponse): (() => void) | undefined {
  const listeners = res.listeners('finish') as (() => void)[]
  return listeners.find(({ name }) => name === 'bound resOnFinish')
}
