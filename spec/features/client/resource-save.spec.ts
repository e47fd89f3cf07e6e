// `saveResource`: a file that is whole, or as it was before.

import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { saveResource } from '../../../lib/client/node/index.js'
import {
  broken,
  bytesOf,
  direct,
  FAST,
  HEAD,
  ranged,
  RESOURCE,
  rpcError,
  server
} from './resource-server.js'

const BYTES = bytesOf(300_000)
let folder: string

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'save-resource-'))
})
afterEach(async () => {
  await rm(folder, { recursive: true })
})

describe('a resource that is saved', () => {
  it('is at the path, whole, and nothing else is there', async () => {
    const { url } = await server(
      direct(BYTES, { 'Content-Disposition': 'attachment; filename="server.pdf"' })
    )
    const path = join(folder, 'mine.pdf')
    expect(await saveResource(url, RESOURCE, path, FAST)).toEqual({
      path,
      size: BYTES.length,
      mimeType: 'application/pdf',
      name: 'server.pdf',
      uri: RESOURCE
    })
    expect(await readdir(folder)).toEqual(['mine.pdf'])
    expect((await readFile(path)).equals(BYTES)).toBe(true)
  })

  it('takes the place of what was there, over a wire that breaks', async () => {
    const { url } = await server(broken(BYTES, 100_000), broken(BYTES, 7), ranged(BYTES))
    const path = join(folder, 'a')
    await writeFile(path, 'old')
    await saveResource(url, RESOURCE, pathToFileURL(path), FAST)
    expect((await readFile(path)).equals(BYTES)).toBe(true)
  })

  it('replaces a link, and not what the link points to', async () => {
    const { url } = await server(direct(BYTES))
    await writeFile(join(folder, 'precious'), 'old')
    await symlink('precious', join(folder, 'link'))
    await saveResource(url, RESOURCE, join(folder, 'link'), FAST)
    expect(await readFile(join(folder, 'precious'), 'utf8')).toBe('old')
    expect((await readFile(join(folder, 'link'))).equals(BYTES)).toBe(true)
  })

  it('is not there until it is whole', async () => {
    const { url } = await server(direct(BYTES))
    const seen: string[][] = []
    const looking: Promise<unknown>[] = []
    const onProgress = (): void =>
      void looking.push(readdir(folder).then(names => seen.push(names)))
    await saveResource(url, RESOURCE, join(folder, 'a'), { ...FAST, onProgress })
    await Promise.all(looking)
    expect(seen[0]).toEqual([expect.stringMatching(/^\.[0-9a-f]{24}\.part$/)])
  })

  it('may be empty', async () => {
    const { url } = await server(direct(Buffer.alloc(0)))
    await saveResource(url, RESOURCE, join(folder, 'a'), FAST)
    expect(await readFile(join(folder, 'a'))).toEqual(Buffer.alloc(0))
  })
})

describe('a resource that cannot be saved', () => {
  it.each([
    ['it is not found', [rpcError(-32002)], 'not-found'],
    ['it breaks off', [broken(BYTES, 1000, { ETag: '' })], 'incomplete'],
    ['it changes', [broken(BYTES, 1000), direct(BYTES, { ETag: '"v2"' })], 'changed'],
    ['it is too large', [direct(BYTES, {})], 'too-large']
  ])('because %s leaves everything as it was', async (_name, answers, code) => {
    const { url } = await server(...answers)
    const path = join(folder, 'a')
    await writeFile(path, 'old')
    const maxStreamSize = BYTES.length - 1
    const options = { ...FAST, ...(code === 'too-large' && { maxStreamSize }) }
    await expect(saveResource(url, RESOURCE, path, options)).rejects.toMatchObject({ code })
    expect(await readdir(folder)).toEqual(['a'])
    expect(await readFile(path, 'utf8')).toBe('old')
  })

  it('because it is aborted leaves nothing behind', async () => {
    const { url, requests } = await server(res => res.writeHead(200, HEAD).write('half'))
    const aborter = new AbortController()
    const onProgress = (): void => aborter.abort(new Error('enough'))
    const saving = saveResource(url, RESOURCE, join(folder, 'a'), {
      ...FAST,
      signal: aborter.signal,
      onProgress
    })
    await expect(saving).rejects.toThrow('enough')
    expect(await readdir(folder)).toEqual([])
    await requests[0]!.closed
  })

  it('because the path is none is refused before anything is asked', async () => {
    const { url, requests } = await server()
    await mkdir(join(folder, 'sub'))
    await expect(saveResource(url, RESOURCE, join(folder, 'sub'), FAST)).rejects.toThrow(TypeError)
    await expect(saveResource(url, RESOURCE, '', FAST)).rejects.toThrow(
      new TypeError('saveResource: `path` must be the path of a file, or its file: URL')
    )
    await expect(saveResource(url, RESOURCE, 7 as never, FAST)).rejects.toThrow(TypeError)
    await expect(saveResource(url, RESOURCE, join(folder, 'no', 'a'), FAST)).rejects.toMatchObject({
      code: 'ENOENT'
    })
    expect(requests).toHaveLength(0)
    expect(await readdir(folder)).toEqual(['sub'])
  })
})
