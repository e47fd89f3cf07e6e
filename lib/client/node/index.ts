// The client door for Node: what needs a file system, and what goes with it.
export { saveResource, type SavedResource } from './save-resource.js'
export { streamResource, type ResourceStream } from '../stream-resource.js'
export type { ResourceTransport } from '../stream-resource-endpoint.js'
// CommonJS has a copy of it in each door: `instanceof` holds for the class of the door that threw
// it.
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
