// The entry point `express-mcp-streams/client/node`: what needs a file system.
export { saveResource, type SavedResource } from './save-resource.js'
export { streamResource, type ResourceStream } from '../stream-resource.js'
export type { ResourceTransport } from '../stream-resource-endpoint.js'
// In CommonJS each entry point has a copy of this class, so `instanceof` works only with the class
// of the entry point that threw the error.
export {
  ResourceStreamError,
  type ResourceStreamErrorCode,
  type RpcError
} from '../stream-resource-error.js'
export type {
  ResourceProgress,
  ResourceReconnection,
  StreamResourceOptions
} from '../stream-resource-options.js'
