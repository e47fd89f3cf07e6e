// The client door: web globals only.
export { resumableFetch } from './resumable-fetch.js'
export type { FetchLike, HeadersLike, Reconnection, ReconnectReason, ResumableFetchOptions } from './options.js'
export {
  reconnectingTransport,
  type ReconnectingTransport,
  type ReconnectingTransportOptions
} from './reconnecting-transport.js'
export { ResumptionError, type ResumptionErrorCode } from './resumption-error.js'
