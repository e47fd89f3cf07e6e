// The entry point `express-mcp-streams/client`: it needs web globals only.
export {
  callResumable,
  type CallResumableOptions,
  type ResumableRequest
} from './call-resumable.js'
export type {
  CallOptions,
  Progress,
  RequestingClient,
  ResultSchema,
  ResumableResult
} from './requesting-client.js'
export { callTask, type CallTaskOptions, type TaskRequest } from './tasks/call-task.js'
export type { TaskState, TaskStatus } from './tasks/follow-task.js'
export { resumableFetch } from './resumable-fetch.js'
export type {
  FetchLike,
  HeadersLike,
  Reconnection,
  ReconnectReason,
  ResumableFetchOptions
} from './options.js'
export {
  reconnectingTransport,
  type ReconnectingTransport,
  type ReconnectingTransportOptions
} from './reconnecting.js'
export { ResumptionError, type ResumptionErrorCode } from './resumption-error.js'
export { streamResource, type ResourceStream } from './stream-resource.js'
export type { ResourceTransport } from './stream-resource-endpoint.js'
export {
  ResourceStreamError,
  type ResourceStreamErrorCode,
  type RpcError
} from './stream-resource-error.js'
export type {
  ResourceProgress,
  ResourceReconnection,
  StreamResourceOptions
} from './stream-resource-options.js'
