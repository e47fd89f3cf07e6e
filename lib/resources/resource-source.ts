// Checks what `open` has returned, and makes a source of it, from which bytes can be read.
import type { Stats } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { isAbsolute, resolve } from 'node:path'
import { isErrored, isReadable, Readable } from 'node:stream'
import type { ReadableStream as WebStream } from 'node:stream/web'
import etag from 'etag'
import { isObject } from '../protocol/json-rpc.js'
import { openFile } from './open-file.js'
import { entityTag, fileName, mimeTypeOf, nameInUri, type ResourceFacts } from './resource-head.js'
import type { Resource, ResourceBytes } from './resource-types.js'

export type Source =
  | { readonly kind: 'redirect'; readonly facts: ResourceFacts; readonly location: string }
  | { readonly kind: 'file'; readonly facts: ResourceFacts; readonly handle: FileHandle }
  | {
      readonly kind: 'bytes'
      readonly facts: ResourceFacts
      readonly read: ReadBytes
      readonly discard: () => void
    }

/** Gives the bytes from `start` to before `end`; `undefined`: to an end that is not known. */
type ReadBytes = (start: number, end: number | undefined) => ResourceBytes | Promise<ResourceBytes>

/** The most bytes of a body in memory that are written to a socket in one piece. */
const PIECE = 256 * 1024

/** `undefined`: its file does not exist. @throws {TypeError} what is wrong with the resource. */
export async function sourceOf(uri: string, resource: Resource): Promise<Source | undefined> {
  if (typeof resource !== 'object' || resource === null)
    throw new TypeError('`open` must return a resource, NOT_STREAMABLE or undefined')
  const { path, root, body, range, redirect, size } = resource
  const ways = [path, body ?? range, redirect].filter(way => way !== undefined)
  if (ways.length !== 1)
    throw new TypeError('A resource must have one of `path`, `body`, `range` and `redirect`')
  if (size !== undefined && !(Number.isSafeInteger(size) && size >= 0))
    throw new TypeError('`size` of a resource must be a whole number, 0 or more')
  if (path !== undefined) return fileSource(uri, resource, path, root)
  if (redirect !== undefined)
    return {
      kind: 'redirect',
      facts: factsOf(uri, resource, size, false),
      location: locationOf(redirect)
    }
  if (range !== undefined && (typeof range !== 'function' || size === undefined))
    throw new TypeError('`range` of a resource must be a function, and needs `size`')
  return body instanceof Uint8Array ? bytesSource(uri, resource, body) : openSource(uri, resource)
}

export function discardResource(opened: unknown): void {
  if (isObject(opened)) discardBytes(opened['body'])
}

/** @throws {TypeError} if they are of another type, or have been read already. */
export function readableOf(bytes: unknown): Readable {
  // One stream for several requests would look empty to the second one.
  if (isUsedUp(bytes))
    throw new TypeError('A stream of a resource has been read already: open one for each request')
  if (bytes instanceof Uint8Array) return Readable.from(piecesOf(bytes))
  if (isWebStream(bytes)) return Readable.fromWeb(bytes)
  if (isNodeStream(bytes)) {
    if (typeof bytes.destroy === 'function' && 'readableEnded' in bytes)
      return bytes as unknown as Readable
    // An old-style stream has neither `destroy` nor a state.
    return new Readable().wrap(bytes)
  }
  throw new TypeError(
    'The bytes of a resource must be a Uint8Array, a web stream or a stream of Node'
  )
}

/** Never throws, although a stream of the application may throw when it is destroyed. */
export function discardBytes(bytes: unknown): void {
  try {
    if (isWebStream(bytes)) {
      if (!bytes.locked) Promise.resolve(bytes.cancel()).catch(() => undefined)
    } else if (isNodeStream(bytes)) {
      bytes.on('error', () => undefined)
      bytes.destroy?.()
    }
  } catch {
    // Nothing was to be read from it.
  }
}

export function discardSource(source: Source): void {
  if (source.kind === 'bytes') source.discard()
  // A file that was only read loses nothing if it cannot be closed.
  else if (source.kind === 'file') source.handle.close().catch(() => undefined)
}

async function fileSource(
  uri: string,
  resource: Resource,
  path: unknown,
  root: unknown
): Promise<Source | undefined> {
  if (typeof path !== 'string' || !isAbsolute(path))
    throw new TypeError('`path` of a resource must be an absolute path')
  if (root !== undefined && (typeof root !== 'string' || !isAbsolute(root)))
    throw new TypeError('`root` of a resource must be an absolute path')
  if (path.includes('\0')) return undefined
  const opened = await openFile(resolve(path), root)
  if (opened === undefined) return undefined
  const { handle, stats } = opened
  const facts = factsOf(uri, { ...resource, name: resource.name ?? path }, stats.size, true)
  const tag = facts.etag ?? fileTag(stats)
  const lastModified = facts.lastModified ?? stats.mtime.toUTCString()
  return { kind: 'file', handle, facts: { ...facts, etag: tag, lastModified } }
}

/** A strong validator from the size, time and inode of a file: it changes with every write. */
function fileTag({ size, mtimeMs, ino }: Stats): string {
  return etag(`${size} ${mtimeMs} ${ino}`)
}

function bytesSource(uri: string, resource: Resource, body: Uint8Array): Source {
  if (resource.size !== undefined && resource.size !== body.length)
    throw new TypeError(
      `\`size\` of the resource is ${resource.size}, and its \`body\` has ${body.length} bytes`
    )
  const facts = factsOf(uri, resource, body.length, true)
  const tag = facts.etag ?? etag(Buffer.from(body.buffer, body.byteOffset, body.byteLength))
  return {
    kind: 'bytes',
    facts: { ...facts, etag: tag },
    read: (start, end) => body.subarray(start, end),
    discard: () => undefined
  }
}

function openSource(uri: string, resource: Resource): Source {
  const { body, range, size } = resource
  const facts = factsOf(uri, resource, size, range !== undefined)
  return {
    kind: 'bytes',
    facts,
    read: (start, end) => {
      // An empty resource has no last byte that `range` could be called with.
      if (size === 0 && body === undefined) return new Uint8Array(0)
      const isWhole = start === 0 && end === size
      if (range !== undefined && (body === undefined || !isWhole)) {
        discardBytes(body)
        return range(start, (end ?? 0) - 1)
      }
      return typeof body === 'function' ? body() : (body as ResourceBytes)
    },
    discard: () => discardBytes(body)
  }
}

function factsOf(
  uri: string,
  { mimeType, name, etag, lastModified }: Resource,
  size: number | undefined,
  acceptsRanges: boolean
): ResourceFacts {
  const bareName = (typeof name === 'string' ? fileName(name) : undefined) ?? nameInUri(uri)
  const isDate = lastModified instanceof Date && !Number.isNaN(lastModified.getTime())
  return {
    uri,
    mimeType: mimeTypeOf(mimeType, bareName),
    name: bareName,
    size,
    etag: entityTag(etag),
    lastModified: isDate ? lastModified.toUTCString() : undefined,
    acceptsRanges
  }
}

function locationOf(redirect: unknown): string {
  const url = String(redirect)
  const fault = '`redirect` of a resource must be an absolute http or https URL'
  if (!URL.canParse(url)) throw new TypeError(fault)
  const { protocol, href } = new URL(url)
  if (protocol !== 'https:' && protocol !== 'http:') throw new TypeError(fault)
  return href
}

function* piecesOf(bytes: Uint8Array): Generator<Uint8Array> {
  for (let from = 0; from < bytes.length; from += PIECE) yield bytes.subarray(from, from + PIECE)
}

/** A stream that has failed does not count: it reports its own error. */
function isUsedUp(bytes: unknown): boolean {
  if (isNodeStream(bytes)) return (bytes as Readable).readableEnded
  if (!isWebStream(bytes)) return false
  const stream = bytes as unknown as Readable
  return Readable.isDisturbed(stream) && !isReadable(stream) && !isErrored(stream)
}

function isWebStream(value: unknown): value is WebStream {
  return (
    isObject(value) &&
    typeof value['getReader'] === 'function' &&
    typeof value['cancel'] === 'function'
  )
}

function isNodeStream(value: unknown): value is NodeJS.ReadableStream & { destroy?: () => void } {
  return isObject(value) && typeof value['pipe'] === 'function' && typeof value['on'] === 'function'
}
