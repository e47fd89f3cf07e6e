// The main entry point: everything that is public on the server.
export type { CloseOptions } from './closing.js'
export { mcpStreams, type McpStreams } from './middleware.js'
export type {
  LimitName,
  McpStreamsDetails,
  McpStreamsStats,
  StatsOptions,
  StreamStats
} from './stats.js'
export type { McpStreamsOptions } from './options/options.js'
export type {
  BackplanePart,
  OwnerCookie,
  ResourcesPart,
  SessionsPart,
  TasksPart
} from './options/part.js'
export type { ResumeTokensOptions } from './options/resume-tokens-options.js'
export type { BackplaneStats, InstanceStats } from './endpoint/other-instances.js'
export type { DurationHint } from './features/resume-tokens/duration-hints.js'
export type { ResumeTokenFault } from './features/resume-tokens/token-fault.js'
export {
  currentStream,
  type CurrentStream,
  type LinkOptions,
  type ResourceLink
} from './http/handler-context.js'
export { StreamError, type StreamFault } from './protocol/errors.js'
export type { OwnerFunction } from './access/guards.js'
export { corsHeaders } from './access/cors-headers.js'
export type { StreamState } from './streams/stream-types.js'
export type {
  DecisionMessage,
  DiagnosticName,
  McpStreamsChannels,
  RequestMessage,
  StreamMessage,
  BackplaneMessage
} from './diagnostics.js'

export type { Fullness } from './endpoint/feature.js'
