// What the endpoint's own `resources/read` returns, as bytes.
import { isObject } from '../protocol/json-rpc.js'
import {
  NOT_STREAMABLE,
  type OpenedResource,
  type OpenResource,
  type Resource
} from './resource-types.js'

/** A resource that does not exist: code of MCP, and of the official SDKs and 2026-07-28. */
const NOT_FOUND = [-32002, -32602]

/**
 * Gives an endpoint `resources/stream` for all that it can `resources/read`: `mcpStreams({
 * resources: readThrough() })`. Each transfer holds the endpoint's answer in memory, in base64 and
 * decoded: about four times the size of the resource at its peak, and the size itself until the
 * client has it. Answers of more than 256 MiB are refused.
 *
 * @throws {TypeError} for an option: it has none.
 */
export function readThrough(...options: never[]): {
  readonly open: OpenResource
  readonly streamable: true
} {
  if (options.length > 0) throw new TypeError('readThrough: it takes no options')
  return {
    streamable: true,
    open: async (uri, { askEndpoint }) => {
      try {
        return resourceIn(await askEndpoint('resources/read', { uri }))
      } catch (error) {
        if (error instanceof Error && 'code' in error && NOT_FOUND.includes(error.code as number))
          return undefined
        throw error
      }
    }
  }
}

function resourceIn({ contents }: Record<string, unknown>): OpenedResource {
  if (!Array.isArray(contents))
    throw new TypeError('The endpoint answered resources/read without contents')
  const parts = (contents as unknown[]).filter(isObject)
  // Several contents, such as those of a folder, cannot be sent as one body.
  const [part, ...others] = parts
  if (part === undefined) return undefined
  if (others.length > 0) return NOT_STREAMABLE
  return {
    ...bytesIn(part),
    ...(typeof part['mimeType'] === 'string' && { mimeType: part['mimeType'] })
  }
}

function bytesIn({ blob, text }: Record<string, unknown>): Resource {
  if (typeof blob === 'string') return { body: decoded(blob) }
  if (typeof text === 'string') return { body: Buffer.from(text), mimeType: 'text/plain' }
  throw new TypeError('The endpoint answered resources/read with neither blob nor text')
}

/** Node skips what is not base64, so bytes would be wrong or missing without an error. */
function decoded(blob: string): Buffer {
  const bytes = Buffer.from(blob, 'base64')
  if (bytes.length === lengthOf(blob)) return bytes
  // Some endpoints break it into lines.
  if (bytes.length === lengthOf(blob.replace(/\s/g, ''))) return bytes
  throw new TypeError('The endpoint answered resources/read with a blob that is not base64')
}

/** How many bytes base64 stands for; `NaN`: valid base64 never has this length. */
function lengthOf(base64: string): number {
  const padding = base64.endsWith('==') ? 2 : base64.endsWith('=') ? 1 : 0
  const characters = base64.length - padding
  return characters % 4 === 1 ? NaN : Math.floor((characters * 3) / 4)
}
