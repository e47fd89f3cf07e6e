// Opens a file once, and checks what is open, even if files are moved or linked meanwhile.
import { constants, type Stats } from 'node:fs'
import { type FileHandle, lstat, open, readlink, realpath, stat } from 'node:fs/promises'
import { isAbsolute, relative, sep } from 'node:path'

interface OpenFile {
  readonly handle: FileHandle
  /** Of the open file. */
  readonly stats: Stats
}

/** Error codes that mean that there is no such file, or that it is a link that is not followed. */
const MISSING = new Set(['ENOENT', 'ENOTDIR', 'ENAMETOOLONG', 'ELOOP', 'EMLINK', 'ENXIO', 'EISDIR'])

/** Without `O_NONBLOCK`, opening a FIFO blocks a thread of the pool until somebody writes to it. */
const READ = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)
const READ_NO_LINK = READ | (constants.O_NOFOLLOW ?? 0)

/** With a `root`, the file must lie there, without links and hidden names. */
export async function openFile(path: string, root?: string): Promise<OpenFile | undefined> {
  try {
    // Opening a device can have effects, so only a regular file is opened.
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

/** The path with its links resolved, if it is in the folder and has no hidden names. */
export async function insideOf(root: string, path: string): Promise<string | undefined> {
  try {
    const [folder, real] = await Promise.all([realpath(root), realpath(path)])
    return isInside(folder, real) ? real : undefined
  } catch {
    // It does not exist, or this process may not read it: to a client, both are not found.
    return undefined
  }
}

function isInside(folder: string, path: string): boolean {
  const way = relative(folder, path)
  return !isAbsolute(way) && way.split(sep).every(name => name !== '' && !name.startsWith('.'))
}

/** A part of the path may have become a link; `O_NOFOLLOW` prevents that for the last part only. */
async function liesIn(
  root: string,
  path: string,
  { fd }: FileHandle,
  { dev, ino }: Stats
): Promise<boolean> {
  const folder = await realpath(root)
  try {
    // The path that Linux has of an open file; ` (deleted)` at its end if it was deleted since.
    return isInside(folder, await readlink(`/proc/self/fd/${fd}`))
  } catch {
    // On other systems, the path must still lead to the same file.
    const real = await realpath(path)
    const found = await lstat(real)
    return isInside(folder, real) && found.dev === dev && found.ino === ino
  }
}
