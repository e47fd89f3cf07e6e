// What the client of a conversation does about tasks, and what it is told: at 2026-07-28 by the
// extension, in a session of 2025-11-25 by the core.

import { expect } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import type { McpStreams, McpStreamsOptions } from '../../../lib/index.js'
import { tasks, type TasksOptions } from '../../../lib/features/tasks/index.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import type { Handler } from '../../helpers/listen.js'
import { request, result } from '../../helpers/mcp.js'
import { openStream, type Json, type OpenStream } from '../../helpers/open-stream.js'
import { sleep } from '../../helpers/sleep.js'
import { tunable, type Tunable, type Word } from '../../helpers/talk/client.js'
import { hold, json, named, type Line } from '../../helpers/talk/endpoint.js'
import type { Talk, World } from '../../helpers/talk/index.js'
import { answer, answerOf, requestOf, RESULT, type SendOptions } from './setup.js'

interface Place {
  /** What the endpoint says that it can do. */
  capabilities?: object
  inFront?: RequestHandler[]
  /** Whether it lets clients in that it is asked about. Default: yes. */
  isOpen?: () => boolean
}

/** Calls of tools are tasks at once, and each has its result with `go`. */
export const modern = (
  options: TasksOptions = {},
  more: McpStreamsOptions = {},
  { capabilities = { tools: {} }, inFront = [], isOpen = () => true }: Place = {}
) => {
  const discover = rawEndpoint(call => {
    if (isOpen()) answer(call, { capabilities })
    else call.res.writeHead(401).end('out')
  })
  return {
    version: '2026-07-28',
    endpoint: [hold, json(RESULT)],
    options: { ...more, tasks: tasks({ after: 0, ...options }) },
    app: (streams: McpStreams, endpoint: Handler): Handler =>
      express()
        .use('/mcp', ...inFront, streams)
        .all('/mcp{/*path}', (req, res) =>
          req.headers['mcp-method'] === 'server/discover' ? discover(req, res) : endpoint(req, res)
        )
  } satisfies World
}

/** 2025-11-25, where the tool `report` may be a task; `null`: without a session. */
export const core = (options: TasksOptions = {}, session: string | null = 'the-session') =>
  ({
    ...(session !== null && { session }),
    endpoint: [hold, json(RESULT)],
    channel: [({ open }) => open(), hold, ({ res }) => res.end()],
    options: { tasks: tasks({ pollInterval: 20, tools: { report: 'after' }, ...options }) }
  }) satisfies World

/** Refuses the request itself. */
export const fails = (code: number, message: string): Line =>
  named(`fails(${code})`, call => call.error(code, message))

export interface Asked extends SendOptions {
  /** About which task: the nth that the client has begun. Default: the newest. */
  of?: number
  params?: object
  /** Behind the endpoint's. */
  path?: string
}

const begun = new WeakMap<Talk, string[]>()

/** The ids of the tasks that the client has begun. */
export function idsOf(talk: Talk): string[] {
  const ids = begun.get(talk) ?? []
  begun.set(talk, ids)
  return ids
}

const isModern = ({ world }: Talk): boolean => world.version === '2026-07-28'

function sentFor(talk: Talk, method: string, { of = 0, params, path = '', ...more }: Asked) {
  const about = method.startsWith('tasks/') && { taskId: idsOf(talk).at(of - 1) }
  const all = { ...about, ...params }
  const { id = 1, headers } = more
  const sent = isModern(talk)
    ? requestOf(method, all, more)
    : { headers, body: request(id, method, all) }
  return { ...sent, url: talk.url + path }
}

/** Asks beside what `sees` is about, and reads the whole answer. */
export async function ask(talk: Talk, method: string, asked: Asked = {}): Promise<OpenStream> {
  const { url, headers, body } = sentFor(talk, method, asked)
  const response = await openStream(url, { headers: { ...talk.headers, ...headers }, body })
  await response.ended
  return response
}

/** Begins to ask: what comes of it is for `sees`. */
export const asks = (method: string, asked: Asked = {}): Word =>
  named(`asks(${method})`, talk => talk.send(sentFor(talk, method, asked)))

interface Told extends Asked {
  status?: number
}

/** Asks, and is told this. */
export const told = (
  method: string,
  expected: object | ((answer: Json, talk: Talk) => void),
  { status = 200, ...asked }: Told = {}
): Word =>
  named(`told(${method})`, async talk => {
    const response = await ask(talk, method, asked)
    const said = await answerOf(response)
    expect(response.status).toBe(status)
    if (typeof expected === 'function') expected(said, talk)
    else expect(said).toMatchObject(expected)
  })

const acknowledged = (method: string, asked?: Asked): Word =>
  told(method, said => expect(said).toEqual(result(1, { resultType: 'complete' })), asked)
export const update = (inputResponses: object, { params, ...asked }: Asked = {}): Word =>
  acknowledged('tasks/update', { ...asked, params: { inputResponses, ...params } })
export const cancelTask = (asked?: Asked): Word => acknowledged('tasks/cancel', asked)

interface Calling extends Asked {
  /** Default: `report`. */
  name?: string
}

function callOf(talk: Talk, { name = 'report', params, ...asked }: Calling): Asked {
  const wish = isModern(talk) ? {} : { task: {} }
  return { ...asked, params: { name, arguments: {}, ...wish, ...params } }
}

/** Calls a tool. */
export const call: Tunable<Calling> = tunable('call', (talk, calling) =>
  asks('tools/call', callOf(talk, calling))(talk)
)

/** Calls a tool, and is told of a task. */
export const begin: Tunable<Calling> = tunable('begin', async (talk, calling) =>
  isTask(talk, await answerOf(await ask(talk, 'tools/call', callOf(talk, calling))))
)

/** The answer to its call is a task. */
export const become: Word = async function become(talk) {
  isTask(talk, await answerOf(talk.response))
}

function isTask(talk: Talk, said: Json): void {
  const id = said.result?.task?.taskId ?? said.result?.taskId
  if (id === undefined) throw new Error(`no task: ${JSON.stringify(said)}`)
  idsOf(talk).push(id)
}

const UNDERWAY = ['working', 'input_required']

/** Looks until a task has this status, and more to it. */
export const task = (
  status: string,
  more: object | ((task: Json) => void) = {},
  asked: Asked = {}
): Word =>
  named(`task(${status})`, async talk => {
    const look = async (): Promise<Json> => answerOf(await ask(talk, 'tasks/get', asked))
    let found = await look()
    while (found.result?.status !== status && UNDERWAY.includes(found.result?.status)) {
      await sleep(5)
      found = await look()
    }
    expect(found).toMatchObject({ result: { status } })
    if (typeof more === 'function') more(found.result)
    else expect(found.result).toMatchObject(more)
  })

/** So many requests have come to the endpoint. */
export const ran = (n: number): Word =>
  named(`ran(${n})`, ({ runs }) => expect(runs).toHaveLength(n))
