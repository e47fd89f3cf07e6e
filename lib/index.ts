// The door: everything that is public on the server.
export { mcpStreams, type McpStreams, type McpStreamsStats } from './mcp-streams.js'
export type { MaxUnsent, MaxUnsentPart, McpStreamsOptions, ResumeTokensOptions } from './options.js'
export type { DurationHint } from './methods/duration-hints.js'
export type { ResumeTokenFault } from './methods/token-fault.js'
export { currentStream, type CurrentStream } from './http/current-stream.js'
export { resumableTransport, type ResumableTransportOptions } from './transport/resumable-transport.js'
export type { TransportLike } from './core/shared-wire.js'
export { StreamError, type StreamFault } from './core/errors.js'
export type { OwnerFunction } from './http/guards.js'
export type { CookieOptions } from './http/owner-cookie.js'
export { corsHeaders } from './cors-headers.js'
export { fileResources, type FileResources, type FileResourcesOptions } from './resources/file-resources.js'
export { readThrough } from './resources/read-through.js'
export {
  NOT_STREAMABLE,
  type IsStreamable,
  type OpenedResource,
  type OpenResource,
  type Resource,
  type ResourceBytes,
  type ResourceContext,
  type ResourceEntry,
  type ResourcesOptions
} from './methods/resource-types.js'
export type { StreamState } from './core/stream-types.js'
export type { DiagnosticName, StreamMessage } from './diagnostics.js'
