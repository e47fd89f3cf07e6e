// What else a client holds of an instance, and brings to another one: tasks, cookies, a listen
// channel, a call of its session, a download.

import { expect, it } from '@jest/globals'
import { connect } from 'node:net'
import { PassThrough } from 'node:stream'
import { ownerCookie } from '../../../lib/features/cookie/index.js'
import { tasks } from '../../../lib/features/tasks/index.js'
import type { McpStreamsOptions } from '../../../lib/index.js'
import { type Resource, resources } from '../../../lib/resources/index.js'
import { cluster } from '../../helpers/backplane/cluster.js'
import { rawEndpoint, type RawCall, type RawEndpoint } from '../../helpers/endpoints/raw.js'
import {
  callTool,
  cancelled,
  get,
  headersFor,
  initializeSession,
  post,
  request
} from '../../helpers/mcp.js'
import { until } from '../../helpers/happenings.js'
import { ALICE, cookieOf } from '../cookies/setup.js'
import { answerJson, DECLARED } from '../resources/setup.js'
import { answer, ask, begin, getTask, RESULT } from '../tasks/setup.js'
import { anywhere, at, gist, lastId, note, VERSION } from './setup.js'

/** Two instances whose endpoints have sessions; the client's is opened at the first. */
async function sessionAnywhere(
  script: (call: RawCall) => unknown,
  options: McpStreamsOptions = {},
  capabilities?: object
) {
  const endpoints = [0, 1].map(i => rawEndpoint(script, { session: `s${i}`, initializeAs: 'json' }))
  const { members } = await cluster(i => endpoints[i] as RawEndpoint, options, {}, 2)
  const urls = members.map(({ url }) => url)
  const { headers } = await initializeSession(urls[0] as string, VERSION, {}, capabilities)
  return { members, endpoints, urls, headers }
}

it('a task is polled and cancelled at another instance', async () => {
  const endpoints = [0, 1].map(() =>
    rawEndpoint(call => {
      if (call.message?.method === 'server/discover')
        answer(call, { supportedVersions: ['2026-07-28'], capabilities: { tools: {} } })
      else running.push(call)
    })
  )
  const running: RawCall[] = []
  const { members } = await cluster(i => endpoints[i]!, { tasks: tasks({ after: 0 }) }, {}, 2)
  const [home, away] = members.map(({ url }) => url) as [string, string]
  const taskId = await begin(home)
  expect((await getTask(away, taskId)).result).toMatchObject({ taskId, status: 'working' })
  answer(running[0]!)
  for (;;) {
    const { result } = await getTask(away, taskId)
    if (result.status !== 'completed') continue
    expect(result.result).toMatchObject({ content: RESULT.content })
    break
  }
  const other = await begin(home)
  expect(await ask(away, 'tasks/cancel', { taskId: other })).not.toHaveProperty('error')
  expect((await getTask(away, other)).result.status).toBe('cancelled')
})

it('a call whose client stays connected sends nothing over the backplane', async () => {
  const endpoints = [0, 1].map(() => rawEndpoint(call => call.result()))
  const { hub, members } = await cluster(i => endpoints[i]!, {}, { lease: 60_000 }, 2)
  await until(() => members.every(({ streams }) => streams.stats().backplane.up === 1))
  // They have told each other all there is: nothing waits for a timer.
  let before = -1
  for (let same = 0; same < 50; same++) {
    await new Promise(setImmediate)
    if (hub.commands.length !== before) same = 0
    before = hub.commands.length
  }
  for (let id = 1; id <= 5; id++) {
    const response = await post(
      members[0]!.url,
      callTool(id, 'any'),
      headersFor({ version: VERSION })
    )
    await response.ended
    expect(gist(response)).toEqual([id])
  }
  expect(hub.commands.slice(before)).toEqual([])
})

it('a cookie of the owner is accepted at another instance', async () => {
  const all = await anywhere({ cookie: ownerCookie({ secret: 'a secret of ours' }) })
  const { first, call, link } = await all.call(ALICE)
  call.emit(note('one'))
  await first.nextMessage()
  const cookie = cookieOf(first)
  expect(cookie).not.toBe('')
  first.destroy()
  expect((await get(at(link, all, 1))).status).toBe(404)
  const second = await get(at(link, all, 1), { cookie })
  call.result()
  await second.ended
  expect(gist(second)).toEqual(['one', 1])
})

it('a listen channel goes on at another instance', async () => {
  const listening: RawCall[] = []
  const { endpoints, urls, headers } = await sessionAnywhere(call => {
    if (call.req.method !== 'GET') return call.result()
    call.open()
    listening.push(call)
  })
  const first = await get(urls[0]!, headers)
  listening[0]!.emit(note('one'))
  await first.nextMessage()
  first.destroy()
  listening[0]!.emit(note('two'))
  const second = await get(urls[1]!, { ...headers, 'last-event-id': lastId(first) })
  expect((await second.nextMessage()).params.data).toBe('two')
  listening[0]!.emit(note('three'))
  expect((await second.nextMessage()).params.data).toBe('three')
  expect(endpoints[1]!.requests.length).toBe(0)
  expect(listening).toHaveLength(1)
})

it('listen channels end at once when their instance leaves, wherever their clients are', async () => {
  const { members, endpoints, urls, headers } = await sessionAnywhere(({ open }) => open())
  const called = post(urls[0]!, callTool(1, 'any'), headers)
  const call = await endpoints[0]!.calls.nth(1)
  ;(await called).destroy()
  const channel = await get(urls[1]!, headers)
  await endpoints[0]!.calls.nth(2)
  await channel.next()
  const closed = members[0]!.streams.close()
  expect(await channel.ended).toBe('end')
  expect(channel.text).toMatch(/\nretry: \d+\n/)
  // Its session ends with it.
  const cursor = { ...headers, 'last-event-id': lastId(channel) }
  expect((await get(urls[1]!, cursor)).status).toBe(404)
  call.result()
  await closed
})

it('a call of a session is cancelled by a notification to another instance', async () => {
  const { endpoints, urls, headers } = await sessionAnywhere(({ open }) => open())
  const call = post(urls[0]!, callTool(1, 'any'), headers)
  await endpoints[0]!.calls.nth(1)
  await call
  const told = await post(urls[1]!, cancelled(1), headers)
  expect(told.status).toBe(202)
  const methods = endpoints.map(({ requests }) => requests.map(({ message }) => message?.method))
  expect(methods[0]).toContain('notifications/cancelled')
  expect(methods[1]).toEqual([])
})

/** The URL of a download that the first of some instances has made out. */
async function downloadAnywhere(body: Resource['body']) {
  const publicUrl = 'https://mcp.example/mcp'
  const downloads = resources({ mode: 'download', publicUrl, open: () => ({ body }) })
  const { urls, headers } = await sessionAnywhere(answerJson, { resources: downloads }, DECLARED)
  const response = await post(urls[0]!, request(1, 'resources/stream', { uri: 'a:1' }), {
    ...headers,
    accept: 'application/json, text/event-stream, */*'
  })
  await response.ended
  const { downloadUrl } = JSON.parse(response.text).result
  return { urls, headers, downloadUrl: downloadUrl as string }
}

it('a download is fetched at another instance, from where its ticket was made out', async () => {
  const { urls, headers, downloadUrl } = await downloadAnywhere(Buffer.from('the bytes'))
  const url = new URL(new URL(downloadUrl).search, urls[1])
  const first = await get(url, { ...headers, accept: '*/*', range: 'bytes=4-' })
  await first.ended
  expect([first.status, first.text]).toEqual([206, 'bytes'])
  const made = url.searchParams.get('download')!
  url.searchParams.set('download', `${made.slice(0, 5)}aaaaaaaaaaaaaaaa`)
  const unknown = await get(url, { ...headers, accept: '*/*' })
  expect(unknown.status).toBe(404)
})

it('a download that breaks off at another instance is not taken for complete over HTTP/1.0', async () => {
  const source = new PassThrough()
  source.write('a part')
  const { urls, headers, downloadUrl } = await downloadAnywhere(() => source)
  const fields = Object.entries({ ...headers, accept: '*/*' }).map(
    ([name, value]) => `${name}: ${value}\r\n`
  )
  const socket = connect(Number(new URL(urls[1]!).port), '127.0.0.1')
  let got = ''
  socket.on('data', chunk => (got += chunk))
  const broken = new Promise(resolve => socket.once('error', resolve).once('end', resolve))
  socket.write(`GET /mcp${new URL(downloadUrl).search} HTTP/1.0\r\n${fields.join('')}\r\n`)
  await until(() => got.endsWith('a part'))
  source.destroy(new Error('why'))
  expect(await broken).toMatchObject({ code: 'ECONNRESET' })
})
