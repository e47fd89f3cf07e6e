// What we know of the insides of Node and of Express; its spec names what a release has changed.
import {
  IncomingMessage,
  type OutgoingHttpHeader,
  type OutgoingHttpHeaders,
  OutgoingMessage,
  ServerResponse
} from 'node:http'
import type { Socket } from 'node:net'

export type HeadArguments = [
  status: number,
  reason?: string | OutgoingHttpHeaders | OutgoingHttpHeader[],
  headers?: OutgoingHttpHeaders | OutgoingHttpHeader[]
]

/** Without overloads. Node and express-session ask for a head by `_implicitHeader`. */
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

/** The methods of the response before: nearly all have the same, those of Node. */
let latest: ResponseMethods | undefined

export function methodsOf(res: ServerResponse): ResponseMethods {
  const own = res as unknown as ResponseMethods
  const { writeHead, write, end, flushHeaders, setHeader, getHeader, destroy, _implicitHeader } =
    own
  // By name and not in a loop, which takes V8 several times as long: it runs for each response.
  if (
    latest?.writeHead === writeHead &&
    latest.write === write &&
    latest.end === end &&
    latest.flushHeaders === flushHeaders &&
    latest.setHeader === setHeader &&
    latest.getHeader === getHeader &&
    latest.destroy === destroy &&
    latest._implicitHeader === _implicitHeader
  )
    return latest
  return (latest = {
    writeHead,
    write,
    end,
    flushHeaders,
    setHeader,
    getHeader,
    destroy,
    _implicitHeader
  })
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

/**
 * From where Node defines it: code that was loaded before us may have patched `ServerResponse`. If
 * a response has another one, no memory must be reused: a logger that patches `write` keeps chunks.
 */
export const NATIVE_WRITE = OutgoingMessage.prototype.write as ResponseMethods['write']

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

/** Bytes up to which `writeChunk` copies what it is given. */
export const MOST_COPIED = 4096

/** As Node's own `write`; the memory of what is small is free at once. */
export function writeChunk(res: ServerResponse, args: readonly unknown[]): boolean {
  const [bytes, ...others] = args
  const isSmall = bytes instanceof Uint8Array && bytes.length <= MOST_COPIED
  return NATIVE_WRITE.call(res, isSmall ? Buffer.from(bytes) : bytes, ...others)
}

const OWN_HEADERS_SENT = Object.getOwnPropertyDescriptor(ServerResponse.prototype, 'headersSent')
const HEADERS_SENT =
  OWN_HEADERS_SENT ?? Object.getOwnPropertyDescriptor(OutgoingMessage.prototype, 'headersSent')

/**
 * Whether the methods of responses ask the property `headersSent` themselves, and must get an
 * answer of their own: those of Bun do, in whose responses it is another one.
 */
export const ASKS_HEADERS_SENT = OWN_HEADERS_SENT !== undefined

/**
 * Whether a listener of a connection that is put before all others hears that it ends or closes
 * before the requests and the responses on it are destroyed: in Node, it does.
 */
export const HEARS_FIRST =
  process.versions['bun'] === undefined && process.versions['deno'] === undefined

/** Node has made the head: from here on its own `headersSent` says so. */
export function hasMadeHead(res: ServerResponse): boolean {
  return HEADERS_SENT?.get?.call(res) === true
}

/** The response whose turn it is on a connection. */
export function responseOnTurn(socket: Socket): ServerResponse | undefined {
  return (socket as { _httpMessage?: ServerResponse | null })._httpMessage ?? undefined
}

/**
 * Bytes that the operating system has not taken. Only the handle tells how much of a large write
 * has left.
 */
export function pendingBytes(socket: Socket, res: ServerResponse): number {
  if (socket.destroyed) return 0
  const handle = (res.socket as { _handle?: { writeQueueSize?: number } | null } | null)?._handle
  return (res.writableLength ?? 0) + (handle?.writeQueueSize ?? 0)
}

/** Nothing reaches the client any more, although Node tells that in a later tick. */
export function isBroken(socket: Socket): boolean {
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

/** Where a request keeps what has come of its body and was not read. */
interface Buffered {
  readonly _readableState: {
    /** From Node 22 on, an array in which the first ones may have been read. */
    readonly buffer: Iterable<Uint8Array | string> & { readonly length: number }
    readonly bufferIndex?: number
    highWaterMark: number
    /** While it is set, nothing is read ahead of who reads: so it is until somebody does. */
    readingMore: boolean
  }
}

/** What has come of a body, as it lies in the request. */
export function piecesIn(req: IncomingMessage): Buffer[] {
  const { buffer, bufferIndex = 0 } = (req as unknown as Buffered)._readableState
  const pieces: Buffer[] = []
  let index = 0
  for (const piece of buffer) {
    if (index++ < bufferIndex) continue
    pieces.push(Buffer.isBuffer(piece) ? piece : bufferOf(piece))
  }
  return pieces
}

export function pieceCount(req: IncomingMessage): number {
  const { buffer, bufferIndex = 0 } = (req as unknown as Buffered)._readableState
  return buffer.length - bufferIndex
}

/**
 * Lets more than `most` bytes of a body come while nobody reads it: its parser would stop where the
 * request may hold no more. `onMore` is called when there is more, or its end. Returns what ends
 * this, and calls its argument in the next tick, when the request is as if nobody had listened.
 */
export function letBodyCome(
  req: IncomingMessage,
  most: number,
  onMore: () => void
): (then: () => void) => void {
  const state = (req as unknown as Buffered)._readableState
  const read = req as ReadRequest
  const { highWaterMark, readingMore } = state
  const isConsuming = read._consuming === true
  state.highWaterMark = most + 1
  req.on('readable', onMore)
  // A parser that has stopped goes on.
  req.read(0)
  return then => {
    req.off('readable', onMore)
    state.highWaterMark = highWaterMark
    process.nextTick(() => {
      read._consuming = isConsuming
      state.readingMore = readingMore
      then()
    })
  }
}

/** A string, where an encoding is set; Deno's parser makes plain arrays. */
function bufferOf(piece: Uint8Array | string): Buffer {
  return typeof piece === 'string'
    ? Buffer.from(piece)
    : Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength)
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

/** Of a head that has been sent, Node asks only whether there is one: its text takes a kilobyte. */
export function dropHead(res: ServerResponse): void {
  const head = res as { _header?: unknown; _headerSent?: boolean }
  if (head._headerSent === true && typeof head._header === 'string') head._header = ' '
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
function expectProperties(object: object, born: object, property: string): void {
  if (Object.getPrototypeOf(object) === born) return
  const descriptor = Object.getOwnPropertyDescriptor(object, property)
  if (descriptor?.configurable !== true || !Object.isExtensible(object)) return
  Reflect.deleteProperty(object, property)
  Object.defineProperty(object, property, descriptor)
}

export function expectPatches(req: IncomingMessage, res: ServerResponse): void {
  if (SHARES_CLASSES) return
  expectProperties(req, IncomingMessage.prototype, 'aborted')
  expectProperties(res, ServerResponse.prototype, 'sendDate')
}
