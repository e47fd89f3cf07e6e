// Redis loses all that instances share while they run calls under an Idempotency-Key: whoever sends
// such a call again gets its answer, at any instance, and none runs twice.

import { afterAll, describe, expect, it } from '@jest/globals'
import { resumableFetch } from '../../../lib/client/index.js'
import { isWithoutRedis } from '../../helpers/backplane/redis-server.js'
import { connectV1 } from '../../helpers/clients.js'
import { closeAll } from '../../helpers/close-all.js'
import { until } from '../../helpers/happenings.js'
import { callTool, headersFor, post } from '../../helpers/mcp.js'
import { three, type Three } from './three.js'

// Each has a Redis and processes of its own, and mostly waits: so both wait at once.
afterAll(closeAll)

/** A process may stand still for two seconds on a busy machine, and is not dead then. */
const LEASE = 3000
const CALL = 4000
const describeHere = isWithoutRedis ? describe.skip : describe

const runs = ({ processes }: Three, key: string): number =>
  processes.flatMap(({ printed }) => printed).filter(line => line === key).length

describeHere('three processes on a Redis that loses its keys', () => {
  it.concurrent.each<[string, (all: Three) => Promise<unknown>]>([
    ['by FLUSHALL', ({ redis }) => redis.command('FLUSHALL')],
    ['as it is started again', ({ redis }) => redis.kill().then(redis.start)]
  ])(
    '%s: run no call twice, and answer it wherever it is sent again',
    async (_how, lose) => {
      const all = await three(LEASE, 'stateless.js')
      const fetch = resumableFetch({ minTimeout: 20, maxRetries: 50 })
      const { client } = await connectV1(all.url, { fetch })
      for (let round = 0; round < 2; round++) {
        const [lifted, key] = [`a lifted call, ${round}`, `a call by hand, ${round}`]
        const called = client.callTool({ name: 'slow', arguments: { key: lifted, ms: CALL } })
        const headers = { ...headersFor({ version: '2025-11-25' }), 'idempotency-key': key }
        const send = async (i: number): Promise<number> => {
          const { url } = all.processes[(round + i) % 3]!
          const response = await post(url, callTool(1, 'slow', { key, ms: CALL }), headers)
          await response.ended
          return response.status === 503 ? send(i) : response.status
        }
        const answers = [send(0)]
        await until(() => runs(all, key) === 1 && runs(all, lifted) === 1)
        answers.push(send(1))
        await lose(all)
        all.cut()
        answers.push(...[1, 2, 1, 2, 0].map(send))
        expect(new Set(await Promise.all(answers))).toEqual(new Set([200]))
        expect(await called).toMatchObject({ content: [{ type: 'text', text: lifted }] })
        expect([runs(all, key), runs(all, lifted)]).toEqual([1, 1])
      }
    },
    120_000
  )
})
