// What the endpoint sees of its response while the state of the socket is not that of the stream.
import type { ServerResponse } from 'node:http'
import { maskState, setEnds, type StateName } from './node-internals.js'

/** The state of a response as the endpoint is to see it: that of its stream. */
export interface ResponseView {
  /** The endpoint has ended its response. */
  readonly isEnded: boolean
  /** The endpoint has ended its response, and everything has been taken. */
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

export function setView(res: ServerResponse, view: ResponseView): void {
  ;(res as Viewed)[VIEW] = view
}

/** From now on, the getters of the response tell the state of its stream, not of its socket. */
export function maskResponse(res: ServerResponse): void {
  maskState(res, STATE)
}

/** The response has left its socket, or has come to its end after that. */
export function showState(res: ServerResponse, { isEnded, isClosed }: ResponseView): void {
  maskResponse(res)
  setEnds(res, isEnded, isClosed)
}

const STATE: Record<StateName, PropertyDescriptor> = {
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
