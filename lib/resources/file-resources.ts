// The files of a folder as resources, and no other file, whatever a URI says.
import type { Dirent } from 'node:fs'
import { lstat, readdir, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { insideOf } from './open-file.js'
import { mimeTypeOf } from './resource-head.js'
import type { IsStreamable, OpenResource, ResourceEntry } from './resource-types.js'

/** Options of {@link fileResources}. */
export interface FileResourcesOptions {
  /** What the URIs of all files begin with, such as `files:///`; a slash at its end is implied. */
  readonly baseUri: string
}

/**
 * What {@link fileResources} returns: a value for the option `resources`, to be used as it is or
 * spread into others.
 */
export interface FileResources {
  readonly open: OpenResource
  readonly streamable: IsStreamable
  /** All files, by URI, for the endpoint's own `resources/list`. Reads the whole tree each time. */
  readonly list: () => Promise<readonly ResourceEntry[]>
}

/**
 * Serves the files below a folder as resources: `files:///a/b.pdf` is `<root>/a/b.pdf`. Not found
 * are files and folders whose names begin with a dot, targets of links outside of the folder, and
 * what is not a file. The process warns if the folder is not there (`MCP_STREAMS_NO_FOLDER`).
 *
 * @throws {TypeError} for a root or a `baseUri` that cannot be one, and for an unknown option.
 */
export function fileResources(root: string, options: FileResourcesOptions): FileResources {
  if (typeof root !== 'string' || root === '' || root.includes('\0'))
    throw new TypeError('fileResources: the root must be the path of a folder')
  const { baseUri, ...others } = (options ?? {}) as Partial<FileResourcesOptions>
  const [other] = Object.keys(others)
  if (other !== undefined) throw new TypeError(`fileResources: unknown option \`${other}\``)
  if (typeof baseUri !== 'string' || !URL.canParse(baseUri) || /[?#]/.test(baseUri))
    throw new TypeError("fileResources: option `baseUri` must be a URI such as 'files:///'")
  const base = baseUri.endsWith('/') ? baseUri : `${baseUri}/`
  const folder = resolve(root)
  void warnIfMissing(folder)
  return {
    open: async uri => {
      const segments = uri.startsWith(base) ? segmentsOf(uri.slice(base.length)) : undefined
      const path =
        segments === undefined ? undefined : await insideOf(folder, join(folder, ...segments))
      return path === undefined ? undefined : { path, root: folder, name: segments?.at(-1) }
    },
    streamable: uri => uri.startsWith(base),
    list: async () => {
      const entries: ResourceEntry[] = []
      for await (const segments of filesIn(folder, [])) {
        const path = await insideOf(folder, join(folder, ...segments))
        const stats = path === undefined ? undefined : await lstat(path).catch(() => undefined)
        if (stats === undefined || !stats.isFile()) continue
        const uri = base + segments.map(encodeURIComponent).join('/')
        const mimeType = mimeTypeOf(undefined, segments.at(-1))
        entries.push({
          uri,
          name: segments.join('/'),
          mimeType,
          size: stats.size,
          streamable: true
        })
      }
      return entries
    }
  }
}

/** Not an error: the folder may be made later. */
async function warnIfMissing(folder: string): Promise<void> {
  const stats = await stat(folder).catch(() => undefined)
  if (stats?.isDirectory() !== true)
    process.emitWarning(`fileResources: there is no folder ${folder}`, {
      code: 'MCP_STREAMS_NO_FOLDER'
    })
}

/** The names in a URI's path; `undefined`: one is not plain, or not encoded correctly. */
function segmentsOf(path: string): string[] | undefined {
  try {
    const segments = path.split('/').map(decodeURIComponent)
    return segments.every(isPlainName) ? segments : undefined
  } catch {
    return undefined
  }
}

function isPlainName(name: string): boolean {
  // eslint-disable-next-line no-control-regex
  return name !== '' && !name.startsWith('.') && !/[/\\:\x00]/.test(name)
}

/** All files below a folder, in order. Links to folders could lead in a circle. */
async function* filesIn(folder: string, above: readonly string[]): AsyncGenerator<string[]> {
  let entries: Dirent[]
  try {
    entries = await readdir(join(folder, ...above), { withFileTypes: true })
  } catch {
    return // It has been removed meanwhile, or this process may not read it.
  }
  entries.sort((a, b) => (a.name < b.name ? -1 : 1))
  for (const entry of entries) {
    if (!isPlainName(entry.name)) continue
    const segments = [...above, entry.name]
    if (entry.isDirectory()) yield* filesIn(folder, segments)
    else if (entry.isFile() || entry.isSymbolicLink()) yield segments
  }
}
