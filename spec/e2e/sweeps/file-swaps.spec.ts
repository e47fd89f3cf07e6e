// A file that is swapped between the look at it and its delivery: what was looked at is what is
// sent, or nothing is.

import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals'
import { spawnSync } from 'node:child_process'
import {
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  symlink,
  writeFile
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileResources, type OpenResource } from '../../../lib/resources/index.js'
import { until } from '../../helpers/happenings.js'
import {
  errorOf,
  fetchUrl,
  serveResources,
  testBytes,
  whole
} from '../../features/resources/setup.js'

let outside: string
let folder: string

beforeAll(async () => {
  outside = await mkdtemp(join(tmpdir(), 'mcp-resources-'))
  await mkdir(join(outside, 'private'))
  await writeFile(join(outside, 'private/a.txt'), 'SECRET')
})
afterAll(() => rm(outside, { recursive: true }))

beforeEach(async () => {
  folder = join(outside, 'served')
  await rm(folder, { recursive: true, force: true })
  await mkdir(join(folder, 'sub'), { recursive: true })
  await writeFile(join(folder, 'a.txt'), 'public')
  await writeFile(join(folder, 'sub/a.txt'), 'public')
})

/** Puts one thing in another's place at once, as an attacker would. */
async function swap(name: string, put: (path: string) => unknown): Promise<void> {
  const path = join(folder, name)
  await put(`${path}.new`)
  await rename(path, join(outside, `old-${Math.random()}`))
  await rename(`${path}.new`, path)
}

/** `fileResources`, with something that happens behind its own look at the file. */
function swapping(happen: () => Promise<void>): OpenResource {
  const { open } = fileResources(folder, { baseUri: 'files:///' })
  return async (uri, context) => {
    const resource = await open(uri, context)
    await happen()
    return resource
  }
}

const NOT_FOUND = { code: -32002, message: 'Resource not found' }
const SWAPS: [what: string, uri: string, happen: () => Promise<void>][] = [
  [
    'for a link to the outside',
    'files:///a.txt',
    () => swap('a.txt', path => symlink(join(outside, 'private/a.txt'), path))
  ],
  [
    'with its folder, for a link to the outside',
    'files:///sub/a.txt',
    () => swap('sub', path => symlink(join(outside, 'private'), path))
  ],
  ['for a FIFO', 'files:///a.txt', () => swap('a.txt', path => spawnSync('mkfifo', [path]))],
  ['for a folder', 'files:///a.txt', () => swap('a.txt', path => mkdir(path))]
]

describe('a path whose file is replaced while it is requested', () => {
  it.each(SWAPS)('%s is not found', async (_what, uri, happen) => {
    const { ask, errors } = await serveResources(swapping(happen))
    expect(await errorOf(ask(uri))).toEqual({ ...NOT_FOUND, data: { uri } })
    expect(errors).toEqual([])
  })

  it('by a hidden file is not found', async () => {
    await writeFile(join(folder, '.env'), 'SECRET')
    const happen = () => swap('a.txt', path => symlink(join(folder, '.env'), path))
    const { ask } = await serveResources(swapping(happen))
    expect(await errorOf(ask('files:///a.txt'))).toMatchObject(NOT_FOUND)
  })

  it('by another file of the folder gives that one, whole, with its own size and validator', async () => {
    const { ask } = await serveResources(
      swapping(() => swap('a.txt', path => writeFile(path, 'public too')))
    )
    const { text, headers } = await whole(ask('files:///a.txt'))
    expect([text, headers['content-length']]).toEqual(['public too', '10'])
  })

  it('by a FIFO, again and again, blocks no thread of the file system pool', async () => {
    const { ask } = await serveResources(
      swapping(() => swap('a.txt', path => spawnSync('mkfifo', [path])).catch(() => undefined))
    )
    for (let i = 0; i < 8; i++) {
      await rm(join(folder, 'a.txt'), { force: true })
      await writeFile(join(folder, 'a.txt'), 'public')
      expect(await errorOf(ask('files:///a.txt'))).toMatchObject(NOT_FOUND)
    }
    expect(await readFile(join(folder, 'sub/a.txt'), 'utf8')).toBe('public')
  })

  it('while it is being sent goes on with the first file', async () => {
    const content = testBytes(24 * 1024 * 1024)
    await writeFile(join(folder, 'large'), content)
    const { ask } = await serveResources(fileResources(folder, { baseUri: 'files:///' }))
    const response = await ask('files:///large')
    await swap('large', path => writeFile(path, 'other'))
    expect((await whole(response)).bytes.equals(content)).toBe(true)
  })
})

it('a path without a root may be a link, and must be a file', async () => {
  await symlink(join(folder, 'a.txt'), join(folder, 'link'))
  spawnSync('mkfifo', [join(folder, 'pipe')])
  const { ask } = await serveResources(uri => ({ path: join(folder, uri.slice(2)) }))
  expect((await whole(ask('f:link'))).text).toBe('public')
  expect(await errorOf(ask('f:pipe'))).toMatchObject(NOT_FOUND)
})

it.each([
  ['relative', { path: '/x', root: 'x' }],
  ['no text', { path: '/x', root: 7 as never }]
])('a root that is %s is an error of the provider', async (_what, resource) => {
  const { ask, errors } = await serveResources(() => resource)
  expect(await errorOf(ask('a:1'))).toMatchObject({ code: -32603 })
  expect(errors).toMatchObject([
    { cause: { message: '`root` of a resource must be an absolute path' } }
  ])
})

it('no file stays open, however its delivery ends', async () => {
  const path = join(folder, 'large')
  await writeFile(path, testBytes(24 * 1024 * 1024))
  const { ask, url, headers } = await serveResources({
    ...fileResources(folder, { baseUri: 'files:///' }),
    publicUrl: 'https://mcp.example/mcp'
  })
  const uri = 'files:///large'
  await whole(ask(uri))
  await whole(ask(uri, { range: 'bytes=99999999-' }))
  await whole(ask(uri, { 'if-match': '"other"' }))
  const { result } = await (await ask(uri, { accept: 'application/json' })).json()
  const download = url + new URL(result.downloadUrl).search
  const { etag = '' } = (await whole(fetchUrl(download, headers, 'HEAD'))).headers
  expect(
    (await whole(fetchUrl(download, { ...headers, 'if-none-match': String(etag) }))).status
  ).toBe(304)
  const cut = await ask(uri)
  cut.destroy()
  await cut.ended
  const open = async (): Promise<string[]> => {
    const names = await readdir('/proc/self/fd').catch(() => [])
    const links = await Promise.all(
      names.map(name => readlink(`/proc/self/fd/${name}`).catch(() => ''))
    )
    return links.filter(link => link === path)
  }
  let left = await open()
  await until(() => {
    void open().then(found => (left = found))
    return left.length === 0
  })
})
