// No URI leads out of the folder of `fileResources`, or to what is hidden, or to what is not a
// file.

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { spawnSync } from 'node:child_process'
import { fc, times } from '../../helpers/property.js'
import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileResources } from '../../../lib/resources/index.js'
import { errorOf, serveResources, whole } from './setup.js'

let outside: string
let folder: string
let socket: Server

beforeAll(async () => {
  outside = await mkdtemp(join(tmpdir(), 'mcp-resources-'))
  folder = join(outside, 'served')
  await mkdir(join(folder, 'sub/.hidden'), { recursive: true })
  await mkdir(join(outside, 'served-too'))
  await writeFile(join(outside, 'secret.txt'), 'secret')
  await writeFile(join(outside, 'served-too/secret.txt'), 'secret')
  await writeFile(join(folder, 'a.txt'), 'a')
  await writeFile(join(folder, '.env'), 'secret')
  await writeFile(join(folder, 'sub/.hidden/secret.txt'), 'secret')
  await symlink(join(outside, 'secret.txt'), join(folder, 'link-out.txt'))
  await symlink(outside, join(folder, 'link-up'))
  await symlink('link-round', join(folder, 'link-round'))
  await symlink(join(folder, '.env'), join(folder, 'link-hidden'))
  await symlink('/dev/zero', join(folder, 'link-device'))
  await symlink('a.txt', join(folder, 'link-in.txt'))
  spawnSync('mkfifo', [join(folder, 'pipe')])
  socket = createServer()
  await new Promise<void>(resolve => socket.listen(join(folder, 'socket'), resolve))
  await writeFile(join(folder, 'unreadable'), 'secret')
  await chmod(join(folder, 'unreadable'), 0)
})
afterAll(async () => {
  await new Promise(resolve => socket.close(resolve))
  await rm(outside, { recursive: true })
})

const serve = () => serveResources(fileResources(folder, { baseUri: 'files:///' }))

describe('a URI', () => {
  const OUTSIDE = [
    'files:///../secret.txt',
    'files:///../served-too/secret.txt',
    'files:///sub/../../secret.txt',
    'files:///sub/../a.txt',
    'files:///./a.txt',
    'files:///%2e%2e/secret.txt',
    'files:///%2E%2E%2Fsecret.txt',
    'files:///..%2fsecret.txt',
    'files:///..%5csecret.txt',
    'files:///..\\secret.txt',
    'files:///%252e%252e/secret.txt',
    'files:///..%c0%afsecret.txt',
    'files:///%c0%ae%c0%ae/secret.txt',
    'files:///%zz',
    'files:////etc/passwd',
    'files:////a.txt',
    'files:///sub//a.txt',
    'files:///%2fetc/passwd',
    'files:///a.txt/',
    'files:///a.txt/x',
    'files:///a.txt%00',
    'files:///a.txt%00.png',
    'files:///a.txt?x',
    'files:///a.txt#x',
    'files:///C:%5cboot.ini',
    'files:///a.txt::$DATA',
    'files:///.env',
    'files:///%2eenv',
    'files:///sub/.hidden/secret.txt',
    'files:///link-out.txt',
    'files:///link-up/secret.txt',
    'files:///link-round',
    'files:///link-hidden',
    'files:///link-device',
    'files:///pipe',
    'files:///socket',
    'files:///sub',
    'files:///',
    'files://',
    'files:/a.txt',
    'FILES:///a.txt',
    'file:///etc/passwd',
    `files:///${'x/'.repeat(1500)}x`,
    `files:///${'x'.repeat(300)}`
  ]

  it.each(OUTSIDE.map(uri => [uri.slice(0, 60), uri]))('%s is not found', async (_start, uri) => {
    const { ask, errors } = await serve()
    expect(await errorOf(ask(uri))).toEqual({
      code: -32002,
      message: 'Resource not found',
      data: { uri }
    })
    expect(errors).toEqual([])
  })

  // The last by a link to the outside, from where it leads in again.
  it.each([
    'files:///a.txt',
    'files:///link-in.txt',
    'files:///%61.txt',
    'files:///link-up/served/a.txt'
  ])('%s is', async uri => {
    const { ask } = await serve()
    expect((await whole(ask(uri))).text).toBe('a')
  })

  it('made of anything gives nothing but what is inside', async () => {
    const { ask } = await serve()
    const piece = fc.constantFrom(
      '..',
      '.',
      '%2e',
      '%2e%2e',
      '/',
      '%2f',
      '\\',
      '%5c',
      'secret.txt',
      'served',
      'link-up',
      '%00',
      '~',
      'a.txt',
      'sub',
      ''
    )
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 8 }), async pieces => {
        const response = await whole(ask(`files:///${pieces.join('')}`))
        expect(response.text).not.toBe('secret')
        if (response.headers['content-type'] !== 'application/json') expect(response.text).toBe('a')
      }),
      { numRuns: times(150) }
    )
  })
})

describe('the list', () => {
  it('names only what can be read', async () => {
    const uris = (await fileResources(folder, { baseUri: 'files:///' }).list()).map(
      ({ uri }) => uri
    )
    expect(uris).toEqual(['files:///a.txt', 'files:///link-in.txt', 'files:///unreadable'])
  })
})
