// What the endpoint sees of its response and request while the socket tells another story than the
// stream.
import type { IncomingMessage, ServerResponse } from 'node:http'

/** The stream's story. */
export interface ResponseView {
  readonly headersSent: boolean
  /**
   * The wire has a head that is none of the endpoint's: what Node says of it is not for the
   * endpoint.
   */
  readonly hasOwnHead: boolean
  /** The endpoint has ended its response. */
  readonly isEnded: boolean
  /** It has ended it, and everything has been taken. */
  readonly isFinished: boolean
  /** There is no room in the stream: `drain` will tell when there is. */
  readonly needsDrain: boolean
  /** The stream is over. */
  readonly isClosed: boolean
}

// Registered, so that an ESM and a CJS copy of this module know each other's responses.
const VIEW = Symbol.for('express-mcp-streams.view')

interface Viewed {
  [VIEW]?: ResponseView
}

export function hasView(res: ServerResponse): boolean {
  return VIEW in res
}

export function viewOf(res: ServerResponse): ResponseView | undefined {
  return (res as Viewed)[VIEW]
}

export function setView(res: ServerResponse, view: ResponseView): void {
  ;(res as Viewed)[VIEW] = view
}

/**
 * A head that waits for the end of the tick counts as sent. One descriptor for all responses keeps
 * their shapes alike.
 */
export function showHeadersSent(res: ServerResponse): void {
  Object.defineProperty(res, 'headersSent', HEADERS_SENT)
}

const HEADERS_SENT: PropertyDescriptor = {
  configurable: true,
  get(this: Viewed & { _header: string | null }) {
    const view = this[VIEW]
    return view?.headersSent === true || (this._header !== null && view?.hasOwnHead !== true)
  }
}

/**
 * From here on the endpoint sees how its stream is doing, where Node tells how its socket is. One
 * prototype serves all responses of a kind: redefining six properties of each would cost more than
 * all else that a small call needs.
 */
export function maskResponse(res: ServerResponse): void {
  const prototype = Object.getPrototypeOf(res) as object
  if (IS_MASK in prototype) return
  let mask = masks.get(prototype)
  if (mask === undefined) {
    mask = Object.create(prototype, { ...STATE, [IS_MASK]: { value: true } }) as object
    masks.set(prototype, mask)
  }
  Object.setPrototypeOf(res, mask)
}

const IS_MASK = Symbol('mcp-streams.mask')
const masks = new WeakMap<object, object>()

/**
 * The response has left its socket, or has come to its end after that. What Node keeps as plain
 * values it does not look at any more; they are set, not redefined, because that would cost every
 * waiting call some kilobytes.
 */
export function showState(res: ServerResponse, { isEnded, isClosed }: ResponseView): void {
  maskResponse(res)
  res.destroyed = isClosed
  ;(res as { finished: boolean }).finished = isEnded
}

const STATE: PropertyDescriptorMap = {
  closed: descriptorOf(view => view.isClosed),
  writableEnded: descriptorOf(view => view.isEnded),
  writableFinished: descriptorOf(view => view.isFinished),
  writableNeedDrain: descriptorOf(view => view.needsDrain),
  errored: descriptorOf(() => null)
}

function descriptorOf(read: (view: ResponseView) => unknown): PropertyDescriptor {
  return {
    configurable: true,
    get(this: Viewed) {
      return this[VIEW] === undefined ? undefined : read(this[VIEW])
    },
    set: () => undefined
  }
}

/**
 * A request whose client has gone looks as it did before; the response's close tells when it is
 * over.
 */
export function maskRequest(req: IncomingMessage): void {
  req.aborted = false
  req.destroyed = false
}
