// What the instances share, while one of them cannot ask for it: nobody is told by mistake that it
// is lost.
import { describe, expect, it } from '@jest/globals'
import { backplane } from '../../../lib/backplane/index.js'
import { tasks } from '../../../lib/features/tasks/index.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { ended, get, headersFor, initialize, post, request } from '../../helpers/mcp.js'
import { until } from '../../helpers/happenings.js'
import { openStream, type Json } from '../../helpers/open-stream.js'
import { cluster } from '../../helpers/backplane/cluster.js'
import { MemoryBackplane } from '../../helpers/backplane/memory.js'
import { serve } from '../../helpers/serve.js'
import { answer, begin, getTask, RESULT } from '../tasks/setup.js'
import { anywhere, at, lastId, note, VERSION } from './setup.js'

const isKept = ({ keys }: { keys: Map<string, unknown> }): boolean =>
  [...keys.keys()].some(key => key.startsWith('r:'))

/** Its next command is not carried out. */
function failOnce(backplane: MemoryBackplane): void {
  const command = backplane.command.bind(backplane)
  backplane.command = () => {
    backplane.command = command
    return Promise.reject(new Error('LOADING'))
  }
}

describe('a stream of an instance that has left', () => {
  /** Nobody has had its end, and another instance knows already whose it was. */
  async function left() {
    const all = await anywhere()
    const { first, call, link } = await all.call()
    call.emit(note('one'))
    await first.nextMessage()
    first.destroy()
    await until(() => all.members[0]!.streams.stats().connections === 0)
    call.result()
    await all.members[0]!.streams.close()
    const url = at(link, all, 1)
    expect((await openStream(url, { method: 'HEAD' })).status).toBe(200)
    const away = all.members[1]!.backplane
    return { away, resume: () => get(url, headersFor({ lastEventId: lastId(first) })) }
  }

  it('is waited for where there is no connection, and is there with it', async () => {
    const { away, resume } = await left()
    away.isUp = false
    const waiting = await resume()
    expect(waiting.status).toBe(200)
    away.isUp = true
    await waiting.ended
    expect(waiting.messages()).toMatchObject([{ id: 1, result: {} }])
  })

  it('is to be asked for again where it could not be looked for', async () => {
    const { away, resume } = await left()
    failOnce(away)
    const refused = await ended(resume())
    expect([refused.status, refused.headers['retry-after']]).toEqual([503, '1'])
    expect(refused.text).toContain('owner-unreachable')
    const again = await ended(resume())
    expect(again.messages()).toMatchObject([{ id: 1, result: {} }])
  })
})

describe('a task of an instance that has left', () => {
  async function left() {
    const endpoint = rawEndpoint(call => {
      if (call.message?.method === 'server/discover')
        answer(call, { supportedVersions: ['2026-07-28'], capabilities: { tools: {} } })
      else answer(call)
    })
    const options = { tasks: tasks({ tools: { report: 'always' } }) }
    const { members, hub } = await cluster(() => endpoint, options, {}, 2)
    const [home, away] = members
    const taskId = await begin(home!.url)
    await until(() => isKept(hub))
    await home!.streams.close()
    const task = (): Promise<Json> => getTask(away!.url, taskId)
    expect((await task()).result.status).toBe('completed')
    return { away: away!.backplane, task }
  }

  it('is waited for where there is no connection, and is there with it', async () => {
    const { away, task } = await left()
    away.isUp = false
    const waiting = task()
    setTimeout(() => (away.isUp = true), 50)
    expect((await waiting).result).toMatchObject({ status: 'completed', result: RESULT })
  })

  it('is to be asked for again where it could not be looked for', async () => {
    const { away, task } = await left()
    failOnce(away)
    expect((await task()).error.data.reason).toBe('owner-unreachable')
    expect((await task()).result).toMatchObject({ status: 'completed', result: RESULT })
  })
})

describe('a session that begins where there is no connection', () => {
  it('is unknown to the others until there is a connection, and then found', async () => {
    const endpoints = [0, 1].map(i =>
      rawEndpoint(
        call => {
          if (call.req.headers['mcp-session-id'] === `s${i}`) call.result()
          else call.res.writeHead(404).end()
        },
        { session: `s${i}` }
      )
    )
    const { members } = await cluster(i => endpoints[i]!, {}, {}, 2)
    const [home, away] = members
    await until(() => members.every(({ streams }) => streams.stats().backplane.up === 1))
    home!.backplane.isUp = false
    await ended(post(home!.url, initialize(VERSION)))
    const ask = async ({ url }: { url: string }): Promise<number> => {
      const headers = headersFor({ version: VERSION, session: 's0' })
      const response = await ended(post(url, request(2, 'any'), headers))
      return response.status
    }
    expect([await ask(home!), await ask(away!)]).toEqual([200, 404])
    home!.backplane.isUp = true
    await until(async () => (await ask(away!)) === 200)
    expect(endpoints[1]!.calls.length).toBeGreaterThan(0)
    expect(await ask(home!)).toBe(200)
  })
})

it('a stream is not waited for for ever where its instance lives, and understands nothing', async () => {
  const all = await anywhere({ keepAlive: 50 }, { lease: 300 })
  const { first, call, link } = await all.call()
  call.emit(note('one'))
  await first.nextMessage()
  first.destroy()
  const end = new MemoryBackplane(all.hub, ['another secret of the specs'], 300)
  const stranger = await serve(all.endpoints[1]!, { backplane: backplane(end) })
  await until(() => stranger.streams.stats().backplane!.up === 1)
  const resumed = headersFor({ lastEventId: lastId(first) })
  const waiting = await ended(get(new URL(new URL(link).search, stranger.url), resumed))
  // Its client comes again, with what it had, to an instance that has the secret.
  expect([waiting.status, lastId(waiting), waiting.messages()]).toEqual([200, lastId(first), []])
  const again = await get(at(link, all, 1), resumed)
  call.result()
  await again.ended
  expect(again.messages()).toMatchObject([{ id: 1, result: {} }])
})
