// The official clients with `resumableFetch`: many calls at once, a gateway in trouble, and ends
// that settle at once.

import { describe, expect, it, jest } from '@jest/globals'
import { createServer, request as forward } from 'node:http'
import { resumableFetch, type Reconnection } from '../../../lib/client/index.js'
import { createCutProxy, type CutBy } from '../../helpers/cut-proxy.js'
import { until } from '../../helpers/happenings.js'
import { listen } from '../../helpers/listen.js'
import { serve } from '../../helpers/serve.js'
import { sleep } from '../../helpers/sleep.js'
import { stopTheClock } from '../limits/setup.js'
import {
  callCount,
  keyIn,
  run,
  SETUPS,
  SPEC_OPTIONS,
  V1,
  V1_STATELESS,
  V2,
  V2_MODERN,
  type Setup
} from './setups.js'

const KINDS: CutBy[] = ['fin', 'rst', 'silence']

describe.each(SETUPS)('$name', setup => {
  it('makes 40 calls at once over one client, cut again and again', async () => {
    const warnings: Error[] = []
    const warned = (warning: Error): unknown => warnings.push(warning)
    process.on('warning', warned)
    let cuts = 0
    const { call, log, proxy, connected } = await run(setup, {
      client: { idleTimeout: 100 },
      plan: ({ method, url, message }) => {
        const isOurs = keyIn(message) !== undefined || (method === 'GET' && url.includes('stream='))
        if (!isOurs || cuts >= 120) return undefined
        return { by: KINDS[cuts++ % 3]!, afterBytes: (cuts * 131) % 1500 }
      }
    })
    const keys = Array.from({ length: 40 }, (_, i) => `call ${i}`)
    const called = await Promise.all(keys.map(key => call(key, { n: 5, size: 100 })))
    expect(called).toEqual(keys.map(() => ({ text: 'counted to 5', steps: [1, 2, 3, 4, 5] })))
    expect(keys.map(key => log.executions(key))).toEqual(keys.map(() => 1))
    expect(proxy.cuts.length).toBeGreaterThan(60)
    expect(connected.errors).toEqual([])
    process.off('warning', warned)
    expect(warnings).toEqual([])
  })
})

describe.each([V1, V1_STATELESS, V2_MODERN])('behind a gateway, $name', setup => {
  it.each([
    ['sse', false],
    ['json', true]
  ])(
    'runs each call once, whatever the gateway says of it, answered by %s',
    async (_name, json) => {
      const endpoint = setup.endpoint({ json })
      const { url } = await serve(endpoint, { retry: 5, resumeInterval: { min: 0 } })
      /**
       * What becomes of the next requests: the gateway answers by itself, before or after the server
       * has.
       */
      let plan: { before?: number; after?: number; cut?: boolean }[] = []
      const gateway = await listen(
        createServer((req, res) => {
          const { before, after, cut } = plan.shift() ?? {}
          const refuse = (code: number): unknown =>
            res.writeHead(code, { 'Retry-After': '0' }).end('<html>gateway</html>')
          if (before !== undefined) return void req.resume().once('end', () => refuse(before))
          const upstream = forward(
            url.replace('/mcp', req.url ?? ''),
            { method: req.method, headers: req.headers },
            answer => {
              if (after !== undefined) {
                answer.destroy()
                refuse(after)
              } else if (cut === true) {
                res.writeHead(answer.statusCode ?? 0, answer.headers).write('')
                answer.destroy()
                setImmediate(() => res.destroy())
              } else {
                res.writeHead(answer.statusCode ?? 0, answer.headers)
                res.flushHeaders()
                answer.pipe(res)
                answer.on('error', () => res.destroy())
                res.on('close', () => answer.destroy())
              }
            }
          )
          upstream.on('error', () => res.destroy())
          req.pipe(upstream)
        })
      )
      const told: Reconnection[] = []
      const fetch = resumableFetch({ ...SPEC_OPTIONS, onReconnect: one => void told.push(one) })
      const connected = await setup.connect(`${gateway.url}/mcp`, fetch)
      await sleep(50)
      const n = json ? 0 : 3
      const plans: (typeof plan)[] = [
        [{ before: 502 }],
        [{ before: 503 }, { before: 502 }, { before: 503 }],
        [{ after: 502 }],
        [{ after: 503 }, { before: 503 }, { after: 504 }],
        [{ cut: true }, { before: 503 }, { before: 502 }],
        [{ cut: true }, { after: 502 }, { before: 503 }, { cut: true }]
      ]
      for (const [i, one] of plans.entries()) {
        plan = [...one]
        expect(await callCount(connected, `${i}`, { n })).toMatchObject({ text: `counted to ${n}` })
        expect([i, endpoint.log.executions(`${i}`)]).toEqual([i, 1])
        expect(plan).toEqual([])
      }
      expect(new Set(told.map(({ reason }) => reason))).toContain('status')
    }
  )
})

/** What a client does with a stream that is gone. */
const BOTH: Setup[] = [V1, V2, V2_MODERN]

describe.each(BOTH)('a call that cannot go on, $name', setup => {
  it.each([
    [404, 'stream unknown', 1],
    [410, 'events evicted', 1],
    // Once more, with headers that are made anew.
    [401, 'unauthorized', 2],
    [403, 'refused', 1],
    [500, 'retries exhausted', 3]
  ])('rejects for %d (%s) after %d attempts', async (code, message, attempts) => {
    const gatewayPlan = { isDown: false, refusals: 0 }
    const endpoint = setup.endpoint()
    const { url } = await serve(endpoint, { retry: 5, resumeInterval: { min: 0 } }, [
      (req, res, next) => {
        const isResumption = req.method === 'GET' && req.url.includes('stream=')
        if (!gatewayPlan.isDown || !isResumption) return next()
        gatewayPlan.refusals++
        res.status(code).end()
      }
    ])
    const proxy = await createCutProxy({
      target: Number(new URL(url).port),
      plan: ({ message }) =>
        keyIn(message) === undefined ? undefined : { by: 'rst', afterEvents: 1 }
    })
    const fetch = resumableFetch({ ...SPEC_OPTIONS, maxRetries: 3 })
    const connected = await setup.connect(`${proxy.url}/mcp`, fetch)
    gatewayPlan.isDown = true
    const error = await callCount(connected, 'lost', { n: 3, paced: true }).catch(
      (reason: unknown) => reason
    )
    endpoint.log.release('lost', 10)
    expect(error).toMatchObject({ code: -31000, message: expect.stringContaining(message) })
    expect(gatewayPlan.refusals).toBe(attempts)
    await until(() => connected.errors.some(({ message }) => message.includes('ResumptionError')))
    // The client is none the worse for it.
    gatewayPlan.isDown = false
    proxy.plan = []
    expect(await callCount(connected, 'next')).toEqual({ text: 'counted to 2', steps: [1, 2] })
  })
})

describe.each(BOTH)('ending calls, $name', setup => {
  it('by `transport.close()` ends those of the transport, and nothing else', async () => {
    const { endpoint, log, fetch, url, call, connected } = await run(setup)
    const other = await setup.connect(url, fetch)
    const dying = call('dying', { n: 1, paced: true })
    const living = callCount(other, 'living', { n: 1, paced: true })
    dying.catch(() => undefined)
    await log.calls.nth(2)
    await sleep(20)
    await connected.client.close()
    await expect(dying).rejects.toThrow()
    await until(() => log.aborted('dying') === 1)
    expect(log.aborted('living')).toBe(0)
    log.release('living', 2)
    expect(await living).toEqual({ text: 'counted to 1', steps: [1] })
    expect(await callCount(other, 'later')).toMatchObject({ text: 'counted to 2' })
    if (setup.hasSession) expect(endpoint.sessions.size).toBe(2)
  })

  it('by a timeout ends that call, and nothing else', async () => {
    const { log, call, connected } = await run(setup)
    const living = call('living', { n: 1, paced: true })
    await log.calls.nth(1)
    stopTheClock()
    const late = call('late', { n: 1, paced: true }, { timeout: 100 })
    const failed = expect(late).rejects.toThrow(/timed out/i)
    await log.calls.nth(2)
    jest.advanceTimersByTime(100)
    jest.useRealTimers()
    await failed
    await until(() => log.aborted('late') === 1)
    expect(log.aborted('living')).toBe(0)
    log.release('living', 2)
    expect(await living).toEqual({ text: 'counted to 1', steps: [1] })
    await sleep(50)
    expect(connected.errors.filter(({ message }) => !/timed out|aborted/i.test(message))).toEqual(
      []
    )
  })

  it('by the signal of the call fires the signal of the tool', async () => {
    const { log, call } = await run(setup)
    const controller = new AbortController()
    const doomed = call('doomed', { n: 1, paced: true }, { signal: controller.signal })
    doomed.catch(() => undefined)
    await log.calls.nth(1)
    await sleep(20)
    controller.abort('enough')
    await expect(doomed).rejects.toThrow()
    await until(() => log.aborted('doomed') === 1)
  })

  it('by the signal of a call that has no response yet fires the signal of the tool, too', async () => {
    const { log, call } = await run(setup, { json: true })
    const controller = new AbortController()
    const doomed = call('doomed', {}, { tool: 'hang', signal: controller.signal })
    doomed.catch(() => undefined)
    await log.calls.nth(1)
    await sleep(20)
    controller.abort('enough')
    await expect(doomed).rejects.toThrow()
    await until(() => log.aborted('doomed') === 1)
  })
})
