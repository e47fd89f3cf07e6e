// The entry point `express-mcp-streams/wires`: the same streams on other wires than HTTP.
export type { TransportLike } from '../protocol/shared-wire.js'
export { resumableTransport, type ResumableTransportOptions } from './resumable-transport.js'
