// Options: each is checked by the factory, `undefined` means absent, and what the caller passed
// stays the caller's.

import { describe, expect, it, jest } from '@jest/globals'
import connect from 'connect'
import { IncomingMessage, type RequestListener, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import supertest from 'supertest'
import { ownerCookie } from '../../lib/features/cookie/index.js'
import { sessions } from '../../lib/features/sessions/index.js'
import { tasks, type TasksOptions } from '../../lib/features/tasks/index.js'
import { resources } from '../../lib/resources/index.js'
import { mcpStreams, type McpStreamsOptions, type ResumeTokensOptions } from '../../lib/index.js'
import { parseOptions } from '../../lib/options/options.js'
import { settingsFrom } from '../../lib/options/schema.js'
import { OPTIONS as TASKS_OPTIONS } from '../../lib/features/tasks/tasks-options.js'
import { Hub } from '../helpers/backplane/memory.js'

type Name = keyof McpStreamsOptions

const SECRET = 'a secret of ours'

const make = (options: unknown) => () => mcpStreams(options as McpStreamsOptions)

/**
 * For each option: what it takes, and what it does not. A new option without a line here does not
 * compile.
 */
const CASES: { [name in keyof Required<McpStreamsOptions>]: { good: unknown[]; bad: unknown[] } } =
  {
    window: { good: [0, 1, 120_000], bad: [-1, 0.5, NaN, Infinity, '1000', null, {}, true] },
    maxStreamBytes: { good: [1, 2 ** 24], bad: [0, -1, 1.5, Infinity, '16mb', null] },
    maxBytes: { good: [1, 2 ** 28], bad: [0, -1, 1.5, Infinity, '256mb', null] },
    maxStreams: { good: [1, 10_000], bad: [0, -1, 1.5, Infinity, '10', null] },
    maxBodyBytes: { good: [1, 4096, 2 ** 40], bad: [0, -1, 1.5, NaN, '1', null] },
    maxUnsent: {
      good: [{}, { messages: 1, bytes: 1 }, { bytes: 2 ** 30 }, { messages: undefined }],
      bad: [
        null,
        5,
        'x',
        [],
        { session: { messages: 10 } },
        { bytes: 0 },
        { messages: 1.5 },
        { message: 1 },
        { bytes: Infinity },
        { bytes: '1mb' },
        { bytes: null }
      ]
    },
    retry: { good: [0, 3000, null], bad: [-1, 0.5, NaN, Infinity, '3000', false] },
    keepAlive: { good: [1, 15_000, null], bad: [0, -1, 0.5, Infinity, '15s', false] },
    upgradeAfter: { good: [0, 5000, null], bad: [-1, 0.5, Infinity, '5s', false] },
    jsonKeepAlive: { good: [1, 20_000, null], bad: [0, -1, 0.5, Infinity, '20s', false] },
    progress: {
      good: [false, { after: 1 }, { after: 20_000, every: 5000 }, { after: 1, every: undefined }],
      bad: [
        true,
        null,
        5,
        [],
        {},
        { every: 1 },
        { after: 0 },
        { after: 1, every: 0 },
        { after: 1, often: 1 }
      ]
    },
    disconnectAfter: { good: [1, 60_000, null], bad: [0, -1, 0.5, Infinity, '60s', false] },
    resumeInterval: {
      good: [
        {},
        { min: 0 },
        { max: 0.2 },
        { min: 0.5, max: 0.5 },
        { min: 1, max: 600 },
        { min: undefined, max: 5 }
      ],
      bad: [
        null,
        600,
        'x',
        { min: -1 },
        { max: NaN },
        { max: Infinity },
        { max: '600' },
        { max: null },
        { min: 700 },
        { min: 2, max: 1 },
        { mni: 1 }
      ]
    },
    handoff: { good: ['auto', 'always', 'never'], bad: ['when-quiet', '', true, null] },
    notifications: { good: ['auto', 'always', 'never'], bad: ['on', '', true, null] },
    handoffAfter: { good: [0, 10_000], bad: [-1, 0.5, NaN, Infinity, '10s', null] },
    owner: { good: [() => 'me', () => undefined, async () => 'me'], bad: [null, 'me', {}] },
    cookie: {
      good: [ownerCookie({ secret: SECRET })],
      bad: [null, true, 'secret', {}, { secret: SECRET }, () => undefined, new Hub().option()]
    },
    allowedOrigins: {
      good: [
        [],
        ['*'],
        ['https://app.example', 'http://localhost:8080', 'HTTPS://APP.EXAMPLE'],
        ['http://[::1]:3000'],
        ['chrome-extension://abcdefghijklmnop', 'vscode-webview://1b2c']
      ],
      bad: [
        null,
        'https://app.example',
        [42],
        ['app.example'],
        ['https://app.example/'],
        ['https://app.example/path'],
        ['https://app.example:443'],
        ['https://*.app.example'],
        ['https://user@app.example'],
        ['null'],
        ['file://'],
        ['']
      ]
    },
    eventStore: { good: ['replace', 'leave'], bad: ['take over', '', true, null, {}] },
    primer: { good: ['auto', 'always', 'never'], bad: ['named', '', true, null] },
    resources: {
      good: [resources({ open: () => undefined })],
      bad: [
        null,
        () => undefined,
        [],
        {},
        { open: () => undefined },
        ownerCookie({ secret: SECRET })
      ]
    },
    tasks: {
      good: [false, tasks()],
      bad: [true, null, 5000, [], {}, { after: 0 }, ownerCookie({ secret: SECRET })]
    },
    resumeTokens: {
      good: [
        false,
        {},
        { after: 0 },
        { after: undefined, methods: ['tools/call', 'prompts/get'] },
        { methods: [] },
        { offer: 'asked' },
        { offer: 'always', methods: 'all' },
        { hints: { report: { typical: 30_000, max: 60_000 }, quick: {} } }
      ],
      bad: [
        true,
        null,
        5000,
        [],
        { after: -1 },
        { after: 0.5 },
        { after: '10s' },
        { methods: 'tools/call' },
        { methods: [42] },
        { methods: [''] },
        { hints: [] },
        { hints: { report: 30_000 } },
        { hints: { report: { typical: -1 } } },
        { hints: { report: { least: 1 } } },
        { window: 1000 }
      ]
    },
    backplane: {
      good: [new Hub().option()],
      bad: [null, true, 'redis://127.0.0.1', {}, new Hub().join(), ownerCookie({ secret: SECRET })]
    },
    sessions: {
      good: [sessions({ secret: SECRET })],
      bad: [
        'forward',
        'local',
        '',
        null,
        true,
        {},
        { secret: SECRET },
        { survive: true, secret: SECRET },
        ownerCookie({ secret: SECRET })
      ]
    },
    onError: { good: [() => undefined], bad: [null, 'log', {}] }
  }
const NAMES = Object.keys(CASES) as Name[]

/** The same of the functions that make the values of options. */
const PARTS: [
  make: (options: never) => object,
  good: object[],
  bad: [fault: RegExp, options: unknown][]
][] = [
  [
    ownerCookie,
    [
      { secret: SECRET },
      { secret: ['a new secret of ours', SECRET] },
      { secret: SECRET, name: undefined },
      { secret: [SECRET], name: '__Secure-streams' }
    ],
    [
      [/options must be/, undefined],
      [/options must be/, null],
      [/options must be/, 'secret'],
      [/`secret`/, {}],
      [/`secret`/, { name: 'streams' }],
      [/`secret`/, { secret: '' }],
      [/`secret`/, { secret: 'too short' }],
      [/`secret`/, { secret: [] }],
      [/`secret`/, { secret: [SECRET, ''] }],
      [/`secret`/, { secret: [SECRET, undefined] }],
      [/`secret`/, { secret: 42 }],
      [/`name`/, { secret: SECRET, name: '' }],
      [/`name`/, { secret: SECRET, name: 'two words' }],
      [/`name`/, { secret: SECRET, name: 'a=b' }],
      [/`name`/, { secret: SECRET, name: 'a;b' }],
      [/`name`/, { secret: SECRET, name: null }],
      [/`name`/, { secret: SECRET, name: '__Host-streams' }],
      [/`maxAge`$/, { secret: SECRET, maxAge: 1000 }],
      [/`Secret`: did you mean `secret`\?$/, { Secret: 'one' }]
    ]
  ],
  [
    sessions,
    [
      { secret: SECRET },
      { secret: ['x'.repeat(16), 'y'.repeat(20)], lifetime: 1 },
      { secret: SECRET, lifetime: undefined }
    ],
    [
      [/options must be/, undefined],
      [/options must be/, 'hush'],
      [/`secret`/, {}],
      [/`secret`/, { secret: 'hush' }],
      [/`secret`/, { secret: [] }],
      [/`secret`/, { secret: [SECRET, 'hush'] }],
      [/`secret`/, { secret: [SECRET, 42] }],
      [/`lifetime` .* \(milliseconds\), not 0$/, { secret: SECRET, lifetime: 0 }],
      [/unknown option `survive`$/, { survive: true, secret: SECRET }],
      [/unknown option `store`$/, { secret: SECRET, store: {} }]
    ]
  ],
  [
    resources,
    [
      { open: () => undefined },
      {
        open: () => undefined,
        mode: 'direct',
        publicUrl: undefined,
        streamable: false,
        ticketTtl: 1,
        timeout: null
      },
      { open: () => undefined, mode: 'download', publicUrl: 'https://mcp.example/mcp?tenant=1' },
      { open: () => undefined, publicUrl: 'http://localhost:3000/mcp' },
      {
        open: () => undefined,
        publicUrl: 'http://[::1]:3000/mcp',
        streamable: () => true,
        timeout: 1000
      },
      { open: () => undefined, list: async () => [] }
    ],
    [
      [/options must be/, null],
      [/options must be/, () => undefined],
      [/`open`/, []],
      [/`open`/, {}],
      [/`open`/, { open: 'files' }],
      [/`mode`/, { open: () => undefined, mode: 'redirect' }],
      [/`publicUrl`/, { open: () => undefined, mode: 'download' }],
      [/`publicUrl`/, { open: () => undefined, publicUrl: 'http://mcp.example/mcp' }],
      [/`publicUrl`/, { open: () => undefined, publicUrl: '/mcp' }],
      [/`publicUrl`/, { open: () => undefined, publicUrl: 'https://user:hush@mcp.example/mcp' }],
      [/`publicUrl`/, { open: () => undefined, publicUrl: 'https://mcp.example/mcp#here' }],
      [/`streamable` .*, not 'all'$/, { open: () => undefined, streamable: 'all' }],
      [/`ticketTtl` .* \(milliseconds\), not 0$/, { open: () => undefined, ticketTtl: 0 }],
      [/`ticketTtl`/, { open: () => undefined, ticketTtl: 2 ** 31 }],
      [/`timeout`/, { open: () => undefined, timeout: '2m' }],
      [/unknown option `ttl`/, { open: () => undefined, ttl: 1000 }]
    ]
  ],
  [
    tasks,
    [
      {},
      { after: 0, ttl: {}, pollInterval: 1, maxPerOwner: 1 },
      { ttl: { default: 1000, max: 1000 }, tools: { report: 'always', ask: 'required' } },
      { ttl: { max: 5 }, after: undefined, tools: { a: 'never', b: 'after' } }
    ],
    [
      [/options must be/, true],
      [/options must be/, null],
      [/options must be/, 5000],
      [/`afterwards`$/, { afterwards: 1 }],
      [/`after` .* \(milliseconds\), not -1$/, { after: -1 }],
      [/`after`/, { after: '10s' }],
      [/`ttl`/, { ttl: 1000 }],
      [/`ttl` .*`default`/, { ttl: { default: 0 } }],
      [/`ttl` .*`default`/, { ttl: { default: 2, max: 1 } }],
      [/`ttl` .*`max`/, { ttl: { max: Infinity } }],
      [/`ttl` .*`min`/, { ttl: { min: 1 } }],
      [/`pollInterval`/, { pollInterval: 0 }],
      [/`maxPerOwner`/, { maxPerOwner: 0 }],
      [/`tools`/, { tools: ['report'] }],
      [/`tools`/, { tools: { report: 'sometimes' } }]
    ]
  ]
]

describe.each(PARTS)('%p', (makePart, good, bad) => {
  it.each(good.map(value => ({ value })))('takes $value', ({ value }) => {
    expect(makePart(value as never)).toMatchObject({ madeBy: makePart.name })
  })

  it.each(bad)('says %p of %j', (fault, options) => {
    const fails = () => makePart(options as never)
    expect(fails).toThrow(TypeError)
    expect(fails).toThrow(new RegExp(`^${makePart.name}: `))
    expect(fails).toThrow(fault)
    expect(fails).not.toThrow(/hush/)
  })
})

describe('a value that carries its code', () => {
  it.each([
    ['cookie', 'ownerCookie', { secret: SECRET }],
    ['resources', 'resources', { open: () => undefined }],
    ['sessions', 'sessions', { secret: SECRET }],
    ['tasks', 'tasks', {}]
  ])('is wanted for %s, and where it is missing, its import is named', (name, made, options) => {
    expect(make({ [name]: options })).toThrow(
      `mcpStreams: option \`${name}\` must be what \`${made}()\` makes: ` +
        `import { ${made} } from 'express-mcp-streams/${name}'`
    )
  })
})

describe.each(NAMES)('option %s', name => {
  it.each(CASES[name].good.map(value => ({ value })))('takes $value', async ({ value }) => {
    const streams = mcpStreams({ [name]: value } as McpStreamsOptions)
    await streams.close({ drain: 0 })
  })

  it.each(CASES[name].bad.map(value => ({ value })))('refuses $value, by its name', ({ value }) => {
    expect(make({ [name]: value })).toThrow(TypeError)
    expect(make({ [name]: value })).toThrow(`\`${name}\``)
  })

  it('takes undefined as absent', () => {
    expect(parseOptions({ [name]: undefined })).toEqual({
      ...parseOptions({}),
      onError: expect.any(Function)
    })
  })
})

describe('mcpStreams', () => {
  it('takes no options', () => {
    expect(make(undefined)).not.toThrow()
    expect(make({})).not.toThrow()
  })

  it.each([
    ['null', null],
    ['a number', 3000],
    ['a string', 'retry'],
    ['a list', []],
    ['a function', () => undefined]
  ])('refuses %s for options', (_name, options) => {
    expect(make(options)).toThrow(TypeError)
  })

  it.each(['ttl', 'Retry', 'eventstore', '__proto__x'])(
    'refuses an unknown option, %s, by its name',
    name => {
      expect(make({ [name]: 1 })).toThrow(TypeError)
      expect(make({ [name]: 1 })).toThrow(`unknown option \`${name}\``)
      // A name that is wrong is wrong whatever its value: it may be right tomorrow.
      expect(make({ [name]: undefined })).toThrow(`\`${name}\``)
    }
  )

  it('has the defaults that its documentation says', () => {
    const MEBIBYTE = 1024 * 1024
    expect(parseOptions({})).toEqual({
      window: 600_000,
      maxStreamBytes: 16 * MEBIBYTE,
      maxBytes: 256 * MEBIBYTE,
      maxStreams: 10_000,
      maxBodyBytes: 4 * MEBIBYTE,
      upgradeAfter: 5000,
      jsonKeepAlive: null,
      progress: false,
      maxUnsent: { messages: 100_000, bytes: 16 * MEBIBYTE },
      handoff: 'auto',
      notifications: 'auto',
      handoffAfter: 10_000,
      retry: 3000,
      keepAlive: 15_000,
      disconnectAfter: null,
      resumeInterval: { min: 1, max: 600 },
      owner: expect.any(Function),
      cookie: undefined,
      allowedOrigins: new Set(),
      eventStore: 'replace',
      primer: 'auto',
      resources: undefined,
      resumeTokens: { after: 10_000, offer: 'asked', methods: ['tools/call'], hints: {} },
      tasks: false,
      backplane: undefined,
      sessions: undefined,
      onError: expect.any(Function)
    })
  })

  it('leaves the options that it was given as they were, and keeps none of them', () => {
    const COOKIE = ownerCookie({ secret: ['a new secret of ours', SECRET] })
    const written = (): McpStreamsOptions => ({
      retry: 50,
      resumeInterval: { max: 60 },
      allowedOrigins: ['https://App.example'],
      cookie: COOKIE,
      resumeTokens: { methods: ['tools/call'], hints: { report: { max: 1 } } }
    })
    const options = written()
    const settings = parseOptions(deepFreeze(options))
    expect(options).toEqual(written())
    expect(settings.resumeTokens).toEqual({
      after: 10_000,
      offer: 'asked',
      ...options.resumeTokens!
    })
    for (const name of ['methods', 'hints'] as const)
      expect((settings.resumeTokens as ResumeTokensOptions)[name]).not.toBe(
        (options.resumeTokens as ResumeTokensOptions)[name]
      )
    expect(settings.allowedOrigins).not.toBe(options.allowedOrigins)
    expect(settings.resumeInterval).not.toBe(options.resumeInterval)
  })
})

describe('tasks', () => {
  it('has a default for each part, and a longest time that is never below the usual one', () => {
    const parse = (options: TasksOptions) => settingsFrom('tasks', TASKS_OPTIONS, options)
    expect(parse({})).toEqual({
      after: 10_000,
      ttl: { default: 3_600_000, max: 86_400_000 },
      pollInterval: 1000,
      maxPerOwner: 1000,
      tools: new Map()
    })
    const times = (ttl: object) => parse({ ttl }).ttl
    expect(times({ max: 1000 })).toEqual({ default: 1000, max: 1000 })
    expect(times({ default: 2e9 })).toEqual({ default: 2e9, max: 2e9 })
  })
})

describe('resumeInterval', () => {
  it('has a floor that gives way to a shorter reconnection time, or a shorter ceiling', () => {
    expect(parseOptions({ retry: 20 }).resumeInterval).toEqual({ min: 0.02, max: 600 })
    expect(parseOptions({ resumeInterval: { max: 0.2 } }).resumeInterval).toEqual({
      min: 0.2,
      max: 0.2
    })
    expect(parseOptions({ retry: null }).resumeInterval).toEqual({ min: 1, max: 600 })
    // Who may come back for what is unwritten may come back for what was lost on the way.
    expect(parseOptions({ resumeInterval: { max: 1200 } }).window).toBe(1_200_000)
    expect(parseOptions({ resumeInterval: { max: 1200 }, window: 5 }).window).toBe(5)
  })

  it('lifts a reconnection time that is below its floor, to whole milliseconds', () => {
    // [WHATWG 9.2.6] A retry field that is not ASCII digits only is ignored.
    expect(parseOptions({ retry: 1000, resumeInterval: { min: 1.1 } }).retry).toBe(1100)
    expect(parseOptions({ retry: 0, resumeInterval: { min: 5 } }).retry).toBe(5000)
    expect(parseOptions({ retry: null, resumeInterval: { min: 5 } }).retry).toBeNull()
  })
})

describe('the message of a fault', () => {
  const message = (options: unknown): string => {
    try {
      make(options)()
    } catch (error) {
      return (error as Error).message.replace(/^mcpStreams: /, '')
    }
    throw new Error('nothing is wrong')
  }

  it.each([
    [{ retries: 3 }, 'unknown option `retries`: did you mean `retry`?'],
    [{ Retry: 3 }, 'unknown option `Retry`: did you mean `retry`?'],
    [{ eventstore: 'leave' }, 'unknown option `eventstore`: did you mean `eventStore`?'],
    [{ maxbytes: 3 }, 'unknown option `maxbytes`: did you mean `maxBytes`?'],
    [{ heartbeat: 3 }, 'unknown option `heartbeat`: did you mean `keepAlive`?'],
    [{ ping: 3 }, 'unknown option `ping`: did you mean `keepAlive`?'],
    [{ ttl: 3 }, 'unknown option `ttl`: did you mean `window`?'],
    [
      { path: '/mcp' },
      "unknown option `path`: mount it there, as in app.use('/mcp', mcpStreams())"
    ],
    [{ store: {} }, 'unknown option `store`: did you mean `backplane`?'],
    [{ redis: {} }, 'unknown option `redis`: did you mean `backplane`?'],
    [{ url: 'redis://a' }, 'unknown option `url`: did you mean `backplane`?'],
    [{ cors: true }, 'unknown option `cors`: did you mean `allowedOrigins`?'],
    [{ origin: '*' }, 'unknown option `origin`: did you mean `allowedOrigins`?'],
    [{ somethingElse: 3 }, 'unknown option `somethingElse`'],
    [
      { resumeTokens: { aftr: 1 } },
      'option `resumeTokens` must not have `aftr`: did you mean `after`?'
    ],
    [{ resumeInterval: { mni: 1 } }, 'option `resumeInterval` must not have `mni`']
  ])('of %j is: %s', (options, text) => {
    expect(message(options)).toBe(text)
  })

  it.each([
    [
      { retry: '3s' },
      "option `retry` must be a whole number, 0 or more, or null (milliseconds), not '3s'"
    ],
    [{ maxBytes: NaN }, 'option `maxBytes` must be a whole number, 1 or more (bytes), not NaN'],
    [{ maxStreams: 0 }, 'option `maxStreams` must be a whole number, 1 to 1000000, not 0'],
    [{ handoff: null }, "option `handoff` must be 'auto', 'always' or 'never', not null"],
    [{ owner: {} }, 'option `owner` must be a function, not an object'],
    [{ onError: 'a\nb' }, "option `onError` must be a function, not 'a\\nb'"],
    [{ primer: 'x'.repeat(1000) }, /not 'x{40}…'$/],
    [
      { resumeTokens: { after: [] } },
      'option `resumeTokens` has a bad `after`: it must be a whole number, 0 or more, not a list'
    ]
  ])('of %j has the value: %s', (options, text) => {
    expect(message(options)).toEqual(typeof text === 'string' ? text : expect.stringMatching(text))
  })

  it.each([
    { sessions: { secret: 'hush' } },
    { sessions: { secret: ['hush'] } },
    { sessions: 'hush' },
    { sessions: { survive: true, secret: 'hush' } }
  ])('of %j does not have the secret', options => {
    expect(message(options)).not.toContain('hush')
  })
})

describe('a mistake that is easily made', () => {
  it('is named: the factory is mounted in the place of what it returns', async () => {
    const app = connect()
    app.use('/mcp', mcpStreams as unknown as connect.NextHandleFunction)
    app.use((error: Error, _req: unknown, res: ServerResponse, _next: unknown) => {
      res.end(`${error.name}: ${error.message}`)
    })
    const { text } = await supertest(app).post('/mcp').send({})
    expect(text).toBe(
      'TypeError: mcpStreams: mount what it returns, `mcpStreams()`, not `mcpStreams`'
    )
  })

  it('is named: the middleware is called like a handler of `node:http`', () => {
    const streams = mcpStreams() as unknown as RequestListener
    const req = new IncomingMessage(new Socket())
    expect(() => streams(req, new ServerResponse(req))).toThrow(
      'mcpStreams: the middleware needs a third argument, the function that calls the endpoint'
    )
  })

  const LESS = 'are less than'
  it.each<[McpStreamsOptions, McpStreamsOptions, string]>([
    [
      { resumeInterval: { max: 86_400 } },
      { resumeInterval: { max: 600_000 } },
      '`resumeInterval` is in seconds: 600000 are more than a day'
    ],
    [
      { window: 0 },
      { window: 60 },
      `\`window\` is in milliseconds: 60 ${LESS} a tenth of a second`
    ],
    [{ retry: 100 }, { retry: 3 }, `\`retry\` is in milliseconds: 3 ${LESS} a tenth of a second`],
    [
      { keepAlive: 1000 },
      { keepAlive: 25 },
      `\`keepAlive\` is in milliseconds: 25 ${LESS} a tenth of a second`
    ],
    [{ maxBytes: 1024 }, { maxBytes: 10 }, `\`maxBytes\` is in bytes: 10 ${LESS} a kibibyte`]
  ])('of another unit is warned of once: %j is not, %j is', async (fine, wrong, text) => {
    // As in a process that has warned of nothing yet.
    jest.resetModules()
    const fresh = await import('../../lib/options/options.js')
    const warn = jest.spyOn(process, 'emitWarning').mockImplementation(() => undefined)
    fresh.parseOptions(fine)
    expect(warn).not.toHaveBeenCalled()
    fresh.parseOptions(wrong)
    fresh.parseOptions(wrong)
    expect(warn.mock.calls).toEqual([[`mcpStreams: option ${text}`, { code: 'MCP_STREAMS_UNIT' }]])
  })

  const ORIGINS = "must be a list of origins such as 'https://app.example', or ['*']"
  it.each([
    [['https://a.example', 'https://a.example/'], ', without a slash at the end'],
    [['a.example'], ', each with its scheme'],
    [['https://a.example/app'], ', without a path'],
    [['https://a.example/app/'], ', without a path'],
    [['https://*.example'], '']
  ])('names what an origin of %j has too much, or too little', (allowedOrigins, why) => {
    const given = allowedOrigins.at(-1)
    expect(() => parseOptions({ allowedOrigins })).toThrow(
      `option \`allowedOrigins\` ${ORIGINS}${why}, not '${given}'`
    )
  })
})

describe('maxStreamBytes', () => {
  it('is never more than maxBytes', () => {
    expect(parseOptions({ maxBytes: 1000 }).maxStreamBytes).toBe(1000)
    expect(parseOptions({ maxBytes: 1000, maxStreamBytes: 10 }).maxStreamBytes).toBe(10)
  })
})

function deepFreeze<T extends object>(value: T): T {
  for (const part of Object.values(value))
    if (typeof part === 'object' && part !== null) deepFreeze(part)
  return Object.freeze(value)
}
