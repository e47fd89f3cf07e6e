// Which requests are about tasks of ours at all: declared by whom, offered by whom, allowed to whom.

import { describe, expect, jest } from '@jest/globals'
import type { RequestHandler } from 'express'
import { result } from '../../helpers/mcp.js'
import { arrived, end, go, meanwhile, type Word } from '../../helpers/talk/client.js'
import { json, type Line } from '../../helpers/talk/endpoint.js'
import { conversation } from '../../helpers/talk/index.js'
import { EXTENSION, RESULT } from './setup.js'
import { ask, begin, call, modern, task, told, type Asked } from './words.js'

const ABOUT = ['tasks/get', 'tasks/update', 'tasks/cancel']
const UNKNOWN = { error: { code: -32602, data: { reason: 'task-unknown' } } }
const declares = (capabilities: object): Word =>
  told('server/discover', said => expect(said.result.capabilities).toEqual(capabilities))
const as = (who: string): Asked => ({ headers: { authorization: `Bearer ${who}` } })

describe('server/discover', () => {
  const capabilities = { tools: { listChanged: true }, extensions: { other: {} } }
  conversation('declares the extension beside what the endpoint declares', {
    ...modern({}, {}, { capabilities }),
    client: [declares({ ...capabilities, extensions: { other: {}, [EXTENSION]: {} } })]
  })

  conversation('declares nothing without the option', {
    ...{ ...modern(), options: {} },
    client: [declares({ tools: {} })]
  })

  const tools = [{ name: 'report', execution: { taskSupport: 'forbidden' } }]
  conversation('leaves lists of tools as they are: the extension has no word in them', {
    ...modern({ tools: { report: 'always' } }),
    endpoint: [json({ tools })],
    client: [told('tools/list', said => expect(said.result).toEqual({ tools }))]
  })
})

const says: Line = (call, run) =>
  json({ resultType: 'task', taskId: 'own', by: call.message.method })(call, run)
conversation.each([
  ['the extension', { extensions: { [EXTENSION]: {} } }, true],
  ['the extension', { extensions: { [EXTENSION]: {} } }, false],
  ['the tasks of 2025-11-25', { tasks: { cancel: {} } }, true],
  ['the tasks of 2025-11-25', { tasks: { cancel: {} } }, false]
])(
  'an endpoint with %s of its own, %j, is left alone, asked before: %j',
  (_name, own, isAsked) => ({
    ...modern({ tools: { report: 'required' } }, {}, { capabilities: { tools: {}, ...own } }),
    endpoint: [says],
    client: [
      ...(isAsked ? [declares({ tools: {}, ...own })] : []),
      told('tools/call', { result: { taskId: 'own' } }, { params: { name: 'report' } }),
      ...[...ABOUT, 'tasks/result'].map(method =>
        told(method, { result: { by: method } }, { params: { taskId: 'own' } })
      )
    ],
    counts: { tasks: 0 }
  })
)

describe('a client', () => {
  const older = { headers: { 'mcp-protocol-version': '2025-11-25' } }
  conversation.each<[string, Parameters<typeof call>[0] & object]>([
    ['that does not declare the extension in a request', { capabilities: {} }],
    [
      'with a hint of 2025-11-25, for a tool set to `never`',
      { name: 'quick', params: { task: {} } }
    ],
    ['that declares it at an older revision', older]
  ])('%s gets no task for it', (_name, calling) => ({
    ...modern({ tools: { quick: 'never', report: 'always' } }),
    client: [begin, meanwhile(call({ id: 'own', ...calling })), arrived(2), go, end],
    sees: ['json', result('own', RESULT)],
    then: ({ call }) => expect(call.message.id).toBe('own')
  }))

  const params = { inputResponses: {} }
  conversation('finds its own tasks only: those of others are as unknown as any', {
    ...modern(),
    client: [
      ...[begin(as('a')), task('working', {}, as('a'))],
      async talk => {
        const look = async (method: string, more: object) =>
          (await ask(talk, method, { ...as('b'), params: { ...params, ...more } })).text
        const unknown = await look('tasks/get', { taskId: 'made-up' })
        for (const method of ABOUT) expect(await look(method, {})).toBe(unknown)
        expect(JSON.parse(unknown)).toMatchObject(UNKNOWN)
      },
      task('working', {}, as('a'))
    ]
  })

  conversation('finds a task only where it has called', {
    ...modern(),
    client: [begin, told('tasks/get', UNKNOWN, { path: '/other' })]
  })

  let discoveries = 0
  const counting: RequestHandler = ({ headers }, _res, next) => {
    if (headers['mcp-method'] === 'server/discover') discoveries++
    next()
  }
  const looks =
    (n: number, asked?: Asked): Word =>
    async talk =>
      void (await Promise.all(Array.from({ length: n }, () => ask(talk, 'tasks/get', asked))))
  const discovered =
    (n: number): Word =>
    () =>
      expect(discoveries).toBe(n)
  conversation('is asked for by the endpoint once in seconds, however often it looks', {
    ...modern({}, {}, { inFront: [counting] }),
    client: [
      ...[begin, looks(20), discovered(1)],
      () => {
        const time = performance.now()
        jest.spyOn(performance, 'now').mockImplementation(() => time + 6000)
      },
      ...[looks(10), discovered(2), looks(1, as('other')), discovered(3)]
    ]
  })

  let isOpen = true
  conversation('that is shut out hears it from the endpoint, and of no task', {
    ...modern({}, {}, { isOpen: () => isOpen }),
    client: [
      ...[begin, () => void (isOpen = false)],
      async talk => {
        const { status, text } = await ask(talk, 'tasks/get', as('late'))
        expect([status, text]).toEqual([401, 'out'])
      }
    ]
  })

  const evil = { headers: { origin: 'https://evil.example' } }
  const foreign = { error: { data: { reason: 'foreign-origin' } } }
  conversation('on a foreign page is refused before any look-up', {
    ...modern(),
    client: [begin, told('tasks/get', foreign, { ...evil, status: 403 })]
  })
})
