// `fileResources`: the files of a folder by URI, and the entries for `resources/list`.

import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { fileResources } from '../../../lib/resources/index.js'
import { until } from '../../helpers/happenings.js'
import { post, request } from '../../helpers/mcp.js'
import { answerJson, errorOf, serveResources, whole } from './setup.js'

let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mcp-resources-'))
  await mkdir(join(folder, 'sub/deep'), { recursive: true })
  await mkdir(join(folder, '.git'))
  await writeFile(join(folder, 'a.txt'), 'a')
  await writeFile(join(folder, 'sub/b c%20ü.pdf'), 'bb')
  await writeFile(join(folder, 'sub/deep/no-extension'), 'ccc')
  await writeFile(join(folder, '.env'), 'secret')
  await writeFile(join(folder, '.git/config'), 'secret')
  await symlink(join(folder, 'a.txt'), join(folder, 'link.txt'))
  await symlink(join(folder, 'sub'), join(folder, 'loop'))
  await symlink('/etc/passwd', join(folder, 'passwd'))
})
afterAll(() => rm(folder, { recursive: true }))

const entries = (base: string) => [
  { uri: `${base}a.txt`, name: 'a.txt', mimeType: 'text/plain', size: 1, streamable: true },
  { uri: `${base}link.txt`, name: 'link.txt', mimeType: 'text/plain', size: 1, streamable: true },
  {
    uri: `${base}sub/b%20c%2520%C3%BC.pdf`,
    name: 'sub/b c%20ü.pdf',
    mimeType: 'application/pdf',
    size: 2,
    streamable: true
  },
  {
    uri: `${base}sub/deep/no-extension`,
    name: 'sub/deep/no-extension',
    mimeType: 'application/octet-stream',
    size: 3,
    streamable: true
  }
]

describe('fileResources', () => {
  it.each(['missing', 'a.txt'])('warns once of a root that is no folder: %s', async name => {
    const warn = jest.spyOn(process, 'emitWarning').mockImplementation(() => undefined)
    const missing = join(folder, name)
    expect(await fileResources(missing, { baseUri: 'files:///' }).list()).toEqual([])
    await until(() => warn.mock.calls.length > 0)
    expect(warn.mock.calls).toEqual([
      [`fileResources: there is no folder ${missing}`, { code: 'MCP_STREAMS_NO_FOLDER' }]
    ])
    warn.mockRestore()
  })

  it('lists what can be had, and nothing that cannot', async () => {
    expect(await fileResources(folder, { baseUri: 'files:///' }).list()).toEqual(
      entries('files:///')
    )
    expect(await fileResources(folder, { baseUri: 'files://host/base' }).list()).toEqual(
      entries('files://host/base/')
    )
  })

  it('serves each entry of its list', async () => {
    const files = fileResources(folder, { baseUri: 'files:///' })
    const { ask } = await serveResources(files)
    for (const { uri, size, mimeType } of await files.list()) {
      const response = await whole(ask(uri))
      expect([response.status, response.bytes.length, response.headers['content-type']]).toEqual([
        200,
        size,
        mimeType
      ])
    }
    const { headers } = await whole(ask('files:///sub/b%20c%2520%C3%BC.pdf'))
    expect(headers['content-disposition']).toBe(
      'attachment; filename="b c%20?.pdf"; filename*=UTF-8\'\'b%20c%2520%C3%BC.pdf'
    )
  })

  it('takes a relative root, and one that is a link', async () => {
    const relativeRoot = relative(process.cwd(), folder)
    expect(await fileResources(relativeRoot, { baseUri: 'f:/' }).list()).toHaveLength(4)
    const link = `${folder}-link`
    await symlink(folder, link)
    try {
      const files = fileResources(link, { baseUri: 'files:///' })
      expect(await files.list()).toHaveLength(4)
      const { ask } = await serveResources(files)
      expect((await whole(ask('files:///a.txt'))).text).toBe('a')
    } finally {
      await rm(link)
    }
  })

  it('has nothing where its folder does not exist', async () => {
    const files = fileResources(join(folder, 'nowhere'), { baseUri: 'files:///' })
    expect(await files.list()).toEqual([])
    const { ask } = await serveResources(files)
    expect(await errorOf(ask('files:///a.txt'))).toMatchObject({ code: -32002 })
  })

  it('marks entries and templates below its base only', async () => {
    const { url, headers } = await serveResources(
      { ...fileResources(folder, { baseUri: 'files:///' }), mode: 'direct' },
      {
        script: call =>
          answerJson(
            call,
            call.message.method === 'resources/list'
              ? { resources: [{ uri: 'files:///a.txt' }, { uri: 'db:///row' }] }
              : {
                  resourceTemplates: [
                    { uriTemplate: 'files:///{+path}' },
                    { uriTemplate: 'db:///{id}' }
                  ]
                }
          )
      }
    )
    const answers = []
    for (const method of ['resources/list', 'resources/templates/list']) {
      answers.push((await (await post(url, request(1, method), headers)).json()).result)
    }
    expect(answers).toEqual([
      { resources: [{ uri: 'files:///a.txt', streamable: true }, { uri: 'db:///row' }] },
      {
        resourceTemplates: [
          { uriTemplate: 'files:///{+path}', streamable: true },
          { uriTemplate: 'db:///{id}' }
        ]
      }
    ])
  })

  it.each([
    ['', { baseUri: 'files:///' }],
    ['a\0b', { baseUri: 'files:///' }],
    [7, { baseUri: 'files:///' }],
    ['.', undefined],
    ['.', {}],
    ['.', { baseUri: 'files' }],
    ['.', { baseUri: 'files:///?x' }],
    ['.', { baseUri: 'files:///#x' }],
    ['.', { baseUri: 'files:///', baseUrl: 'files:///' }]
  ])('refuses %j with %j', (root, options) => {
    expect(() => fileResources(root as string, options as { baseUri: string })).toThrow(TypeError)
    expect(() => fileResources(root as string, options as { baseUri: string })).toThrow(
      'fileResources: '
    )
  })
})
