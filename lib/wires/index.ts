// The entry point `express-mcp-streams/wires`: the same streams on other wires than HTTP.
// So that what it shares with the middleware is built as one file: each takes heap of its own.
import '../index.js'
export type { TransportLike } from '../protocol/shared-wire.js'
export { resumableTransport, type ResumableTransportOptions } from './resumable-transport.js'
