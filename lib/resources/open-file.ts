// Opens a file once, so that what is looked at is what is sent, whatever is moved about
// meanwhile.
import { constants, type Stats } from 'node:fs'
import { type FileHandle, lstat, open, readlink, realpath, stat } from 'node:fs/promises'
import { isAbsolute, relative, sep } from 'node:path'

export interface OpenFile {
  readonly handle: FileHandle
  /** Of what is open. */
  readonly stats: Stats
}

/** What the system says where there is no such file, or none that may be followed. */
const MISSING = new Set(['ENOENT', 'ENOTDIR', 'ENAMETOOLONG', 'ELOOP', 'EMLINK', 'ENXIO', 'EISDIR'])

/** Without `O_NONBLOCK`, to open a FIFO takes a thread of the pool until somebody writes to it. */
const READ = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)
const READ_NO_LINK = READ | (constants.O_NOFOLLOW ?? 0)

/**
 * Opens a regular file for reading; `undefined`: there is none. With a `root`, `path` must be free
 * of links, and what has been opened must lie in that folder under names that do not begin with a
 * dot.
 */
export async function openFile(path: string, root?: string): Promise<OpenFile | undefined> {
  try {
    // To open a device can do something: what is no file already is not opened.
    if (!(await (root === undefined ? stat(path) : lstat(path))).isFile()) return undefined
    const handle = await open(path, root === undefined ? READ : READ_NO_LINK)
    try {
      const stats = await handle.stat()
      if (stats.isFile() && (root === undefined || (await liesIn(root, path, handle, stats))))
        return { handle, stats }
    } catch (error) {
      await handle.close()
      throw error
    }
    await handle.close()
    return undefined
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (MISSING.has(code)) return undefined
    throw error
  }
}

/** Where a path really leads, if that is inside of the folder, and to nothing hidden. */
export async function insideOf(root: string, path: string): Promise<string | undefined> {
  try {
    const [folder, real] = await Promise.all([realpath(root), realpath(path)])
    return isInside(folder, real) ? real : undefined
  } catch {
    // It does not exist, or is not for this process to read: neither is a difference for a client.
    return undefined
  }
}

function isInside(folder: string, path: string): boolean {
  const way = relative(folder, path)
  return !isAbsolute(way) && way.split(sep).every(name => name !== '' && !name.startsWith('.'))
}

/**
 * Whether an open file lies in a folder. A part of its path may have become a link between the look
 * at it and the opening, which no flag of
 * `open` prevents but for the last part.
 */
async function liesIn(
  root: string,
  path: string,
  { fd }: FileHandle,
  { dev, ino }: Stats
): Promise<boolean> {
  const folder = await realpath(root)
  try {
    // Linux names what is open, links resolved. Of what was deleted since it says so behind the
    // name.
    return isInside(folder, await readlink(`/proc/self/fd/${fd}`))
  } catch {
    // Elsewhere: the same file must still be found there.
    const real = await realpath(path)
    const found = await lstat(real)
    return isInside(folder, real) && found.dev === dev && found.ino === ino
  }
}
