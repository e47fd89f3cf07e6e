// The usual middleware of an Express application, in front of us and behind us: it keeps working,
// and so do we.

import { describe, expect, it } from '@jest/globals'
import compression from 'compression'
import cors from 'cors'
import express from 'express'
import express4 from 'express4'
import session from 'express-session'
import helmet from 'helmet'
import morgan from 'morgan'
import { Awaitable } from '../../helpers/gate.js'
import { callTool } from '../../helpers/mcp.js'
import type { Json, OpenStream } from '../../helpers/open-stream.js'
import { runBare, runWithCut } from '../../features/mounting/cut-and-resume.js'
import { ENDPOINTS, type EndpointName } from '../../features/mounting/endpoints.js'
import {
  createStreams,
  FRAMEWORKS,
  type Middleware,
  type Mount,
  MOUNTS
} from '../../features/mounting/frameworks.js'
import { expectSameBytes, requestOf } from '../../features/mounting/on-the-wire.js'

interface Neighbour {
  create(log: Awaitable<string>): Middleware
  /** What it does to a response that passes it. */
  expectAtWork(response: OpenStream): void
}

const NEIGHBOURS = {
  compression: {
    create: () => compression({ threshold: 0 }) as Middleware,
    // An event stream must not be compressed: whole events would sit in the compressor.
    expectAtWork: ({ headers }) => expect(headers['content-encoding']).toBeUndefined()
  },
  helmet: {
    create: () => helmet() as Middleware,
    expectAtWork: ({ headers }) => expect(headers['x-content-type-options']).toBe('nosniff')
  },
  cors: {
    create: () => cors({ exposedHeaders: ['Link'] }) as Middleware,
    expectAtWork: ({ headers }) => {
      expect(headers['access-control-allow-origin']).toBe('*')
      expect(headers['access-control-expose-headers']).toBe('Link')
    }
  },
  morgan: {
    create: log =>
      morgan(':method :status', {
        stream: { write: line => void log.push(line.trim()) }
      }) as Middleware,
    expectAtWork: () => undefined
  },
  'express-session': {
    create: () =>
      session({
        secret: 'secret',
        genid: () => 'id',
        resave: false,
        saveUninitialized: true
      }) as unknown as Middleware,
    expectAtWork: ({ headers }) => expect(headers['set-cookie']?.[0]).toMatch(/^connect\.sid=/)
  }
} satisfies Record<string, Neighbour>

type Group = [name: string, names: (keyof typeof NEIGHBOURS)[]]

const names = Object.keys(NEIGHBOURS) as (keyof typeof NEIGHBOURS)[]
const single = names.map((name): Group => [name, [name]])
const together: Group[] = [
  ['all of them', names],
  ['all of them, the other way round', names.toReversed()]
]
const [express5, ...others] = MOUNTS.filter(([framework]) => framework !== 'node:http')
const places = [
  [...express5!, [...single, ...together]] as const,
  ...others.map(([name, mount]) => [name, mount, together] as const)
]
const LONG = JSON.stringify({ text: 'x'.repeat(5000) })
const JSON_TYPE = { 'Content-Type': 'application/json' }
const ENCODINGS = { 'accept-encoding': 'gzip, br' }

describe.each(Object.keys(ENDPOINTS) as EndpointName[])('%s', name => {
  const kind = ENDPOINTS[name]
  let bare: Promise<Json[]> | undefined

  async function expectNothingLost(mount: Mount, chain: Middleware[]) {
    if (bare === undefined) {
      const endpoint = kind.create()
      bare = runBare(kind, FRAMEWORKS['node:http']['a chain of its own']([endpoint]), endpoint)
    }
    const endpoint = kind.create()
    const run = await runWithCut(kind, mount([...chain, endpoint]), endpoint, {
      headers: ENCODINGS
    })
    expect(run.uncut).toEqual(await bare)
    expect(run.resumed).toEqual(run.uncut)
    return run
  }

  describe.each(places)('on %s', (_framework, mount, groups) => {
    it.each(groups)('behind %s', async (_name, group) => {
      const log = new Awaitable<string>()
      const neighbours = group.map(name => NEIGHBOURS[name].create(log))
      const { first, second } = await expectNothingLost(mount, [...neighbours, createStreams()])
      for (const name of group) {
        NEIGHBOURS[name].expectAtWork(first)
        NEIGHBOURS[name].expectAtWork(second)
      }
      if (group.includes('morgan'))
        expect(log.slice(-2).toSorted()).toEqual(['GET 200', 'POST 200'])
    })

    it.each(groups)('in front of %s', async (_name, group) => {
      const log = new Awaitable<string>()
      const neighbours = group.map(name => NEIGHBOURS[name].create(log))
      const { first } = await expectNothingLost(mount, [createStreams(), ...neighbours])
      for (const name of group) NEIGHBOURS[name].expectAtWork(first)
      if (group.includes('morgan')) expect(log.at(-1)).toBe('POST 200')
    })
  })

  it.each([
    ['Express 5', express],
    ['Express 4', express4]
  ])('on %s with x-powered-by disabled', async (_framework, framework) => {
    const mount: Mount = chain =>
      framework()
        .disable('x-powered-by')
        .use('/mcp', ...chain)
    const { first } = await expectNothingLost(mount, [createStreams()])
    expect(first.headers['x-powered-by']).toBeUndefined()
  })
})

describe.each(MOUNTS)('what is no event stream, on %s', (_framework, mount) => {
  const answers: [string, Middleware][] = [
    ['at once', (_req, res) => res.writeHead(200, JSON_TYPE).end(LONG)],
    [
      'with an implicit head',
      (_req, res) => res.setHeader('Content-Type', 'application/json').end(LONG)
    ],
    [
      'in pieces',
      (_req, res) => {
        res.writeHead(200, JSON_TYPE)
        for (let at = 0; at < LONG.length; at += 500) res.write(LONG.slice(at, at + 500))
        res.end()
      }
    ],
    [
      'in pieces over several ticks',
      async (_req, res) => {
        res.setHeader('Content-Type', 'application/json').flushHeaders()
        for (let at = 0; at < LONG.length; at += 500) {
          res.write(LONG.slice(at, at + 500))
          await new Promise(resolve => setImmediate(resolve))
        }
        res.end()
      }
    ]
  ]
  const create = () => names.map(name => NEIGHBOURS[name].create(new Awaitable()))
  const send = requestOf(callTool(1, 'any'), { headers: ENCODINGS })

  it.each(answers)('%s, behind all of them: the same bytes', async (_name, answer) => {
    const [response] = await expectSameBytes(
      streams => mount([...create(), ...streams, answer]),
      send
    )
    expect(response).toMatch(/^content-encoding: br\r$/im)
  })

  it.each(answers)('%s, in front of all of them: the same bytes', async (_name, answer) => {
    const [response] = await expectSameBytes(
      streams => mount([...streams, ...create(), answer]),
      send
    )
    expect(response).toMatch(/^content-encoding: br\r$/im)
  })
})
