// The entry point `express-mcp-streams/client/node`: what needs a file system.
import { randomBytes } from 'node:crypto'
import { open, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { ResourceTransport } from '../stream-resource-endpoint.js'
import type { StreamResourceOptions } from '../stream-resource-options.js'
import { streamResource } from '../stream-resource.js'

export { streamResource, type ResourceStream } from '../stream-resource.js'
export type { ResourceTransport } from '../stream-resource-endpoint.js'
// In CommonJS each entry point has a copy of this class, for its own `instanceof`.
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

/** A resource that is on the disk. */
export interface SavedResource {
  readonly path: string
  /** Bytes of the file. */
  readonly size: number
  readonly mimeType: string
  /**
   * The file name that the server suggests, without any folder; `undefined` if it suggests none.
   */
  readonly name: string | undefined
  /** The canonical URI of the resource. */
  readonly uri: string
}

/**
 * Streams a resource ({@link streamResource}) to a file. The bytes go to a temporary file in the
 * same folder, which takes the place of `path` only once it is whole and on the disk; if anything
 * fails it is removed, and what was at `path` stays.
 *
 * @param path of the file, or its `file:` URL; the folder must be there
 * @throws {ResourceStreamError} if the resource cannot be read to its end, and errors of the file
 * system
 */
export async function saveResource(
  transportOrUrl: string | URL | ResourceTransport,
  uri: string,
  path: string | URL,
  options?: StreamResourceOptions
): Promise<SavedResource> {
  const target = path instanceof URL ? fileURLToPath(path) : path
  if (typeof target !== 'string' || basename(target) === '')
    throw new TypeError('saveResource: `path` must be the path of a file, or its file: URL')
  // Checked before the transfer, and not only when the file is renamed.
  const existing = await stat(target).catch(() => undefined)
  if (existing?.isDirectory() === true) throw new TypeError('saveResource: `path` is a folder')
  const temporary = join(dirname(target), `.${randomBytes(12).toString('hex')}.part`)
  const file = await open(temporary, 'wx')
  try {
    let size = 0
    try {
      const {
        stream,
        mimeType,
        name,
        uri: canonical
      } = await streamResource(transportOrUrl, uri, options)
      // Leaving the loop early cancels the stream.
      for await (const bytes of stream) {
        await writeWhole(file, bytes)
        size += bytes.length
      }
      await file.sync()
      await file.close()
      await rename(temporary, target)
      return { path: target, size, mimeType, name, uri: canonical }
    } finally {
      await file.close()
    }
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
}

/** A write may take less than it is given. */
async function writeWhole(
  file: Awaited<ReturnType<typeof open>>,
  bytes: Uint8Array
): Promise<void> {
  for (let written = 0; written < bytes.length;)
    written += (await file.write(bytes, written, bytes.length - written)).bytesWritten
}
