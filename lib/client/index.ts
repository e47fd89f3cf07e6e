// The client door: web globals only.
export {
  callResumable,
  type CallResumableOptions,
  type RequestingClient,
  type ResumableRequest,
  type ResumableResult
} from './call-resumable.js'
export { resumableFetch } from './resumable-fetch.js'
export type { FetchLike, HeadersLike, Reconnection, ReconnectReason, ResumableFetchOptions } from './options.js'
export { ResumptionError, type ResumptionErrorCode } from './resumption-error.js'
