// Puts an Express application behind an adapter, bare and with the middleware, and prints what
// comes out of both as JSON. In a process of its own, as these packages are loaded by Node alone.
//   node adapters.js <folder with the packages> <adapter>
import { createRequire } from 'node:module'
import { PassThrough } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { mcpStreams } from 'express-mcp-streams'

const [, , folder, name] = process.argv
const load = createRequire(`${folder}/package.json`)
const express = load('express')

const CALL = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'any' } }
const HEADERS = {
  host: 'a.test',
  accept: 'application/json, text/event-stream',
  'content-type': 'application/json',
  'mcp-protocol-version': '2025-11-25'
}
const blockOf = message => `data: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`

const ENDPOINTS = {
  'an event stream in pieces': async (_req, res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    for (let i = 0; i < 3; i++) {
      res.write(blockOf({ method: 'notifications/x', params: { i } }))
      await sleep(10)
    }
    res.end(blockOf({ id: 1, result: {} }))
  },
  'an event stream in one piece': (_req, res) =>
    res.writeHead(200, { 'content-type': 'text/event-stream' }).end(blockOf({ id: 1, result: {} })),
  'JSON at once': (_req, res) => res.json({ jsonrpc: '2.0', id: 1, result: {} }),
  'JSON that is slow': async (_req, res) => {
    await sleep(60)
    res.json({ jsonrpc: '2.0', id: 1, result: {} })
  }
}

/** An event of API Gateway, version 2. */
const event = () => ({
  version: '2.0',
  routeKey: '$default',
  rawPath: '/mcp',
  rawQueryString: '',
  headers: HEADERS,
  requestContext: {
    http: { method: 'POST', path: '/mcp', sourceIp: '192.0.2.1', protocol: 'HTTP/1.1' },
    stage: '$default',
    domainName: 'a.test',
    requestId: 'r'
  },
  body: JSON.stringify(CALL),
  isBase64Encoded: false
})
const ofLambda = ({ statusCode, headers, body, isBase64Encoded }) => ({
  status: statusCode,
  type: String(headers['content-type']),
  text: isBase64Encoded ? Buffer.from(body, 'base64').toString() : body
})

const ADAPTERS = {
  'serverless-http': app => load('serverless-http')(app)(event(), {}).then(ofLambda),
  '@codegenie/serverless-express': app =>
    load('@codegenie/serverless-express')({ app })(event(), {}).then(ofLambda),
  '@vendia/serverless-express': app =>
    load('@vendia/serverless-express')({ app })(event(), {}).then(ofLambda),
  '@h4ad/serverless-adapter, at the end': app =>
    h4ad(
      app,
      'default',
      'DefaultHandler',
      'promise',
      'PromiseResolver'
    )(event(), {}).then(ofLambda),
  '@h4ad/serverless-adapter, as a stream': async app => {
    let head
    const HttpResponseStream = { from: (stream, given) => ((head = given), stream) }
    globalThis.awslambda = { streamifyResponse: handler => handler, HttpResponseStream }
    const out = new PassThrough()
    let text = ''
    out.on('data', chunk => (text += chunk))
    const ended = new Promise(resolve => out.on('end', resolve))
    h4ad(app, 'aws', 'AwsStreamHandler', 'dummy', 'DummyResolver')(event(), out, {})
    await ended
    return { status: head.statusCode, type: head.headers['content-type'], text }
  },
  'light-my-request': async app => {
    const answer = await load('light-my-request')(app, {
      method: 'POST',
      url: '/mcp',
      headers: HEADERS,
      payload: CALL
    })
    return { status: answer.statusCode, type: answer.headers['content-type'], text: answer.payload }
  },
  'node-mocks-http': async app => {
    const { EventEmitter } = await import('node:events')
    const mocks = load('node-mocks-http')
    const req = mocks.createRequest({ method: 'POST', url: '/mcp', headers: HEADERS, body: CALL })
    req._body = true
    const res = mocks.createResponse({ eventEmitter: EventEmitter })
    const ended = new Promise(resolve => res.on('end', resolve))
    app(req, res)
    await ended
    return { status: res.statusCode, type: res._getHeaders()['content-type'], text: res._getData() }
  },
  'fetch-to-node': async app => {
    const { toReqRes, toFetchResponse } = load('fetch-to-node')
    const { req, res } = toReqRes(
      new Request('http://a.test/mcp', {
        method: 'POST',
        headers: HEADERS,
        body: JSON.stringify(CALL)
      })
    )
    app(req, res)
    const response = await toFetchResponse(res)
    const text = await response.text()
    return { status: response.status, type: response.headers.get('content-type'), text }
  }
}

function h4ad(app, handler, Handler, resolver, Resolver) {
  const part = path => load(`@h4ad/serverless-adapter${path}`)
  return part('')
    .ServerlessAdapter.new(app)
    .setFramework(new (part('/lib/frameworks/express').ExpressFramework)())
    .setHandler(new (part(`/lib/handlers/${handler}`)[Handler])())
    .setResolver(new (part(`/lib/resolvers/${resolver}`)[Resolver])())
    .addAdapter(new (part('/lib/adapters/aws').ApiGatewayV2Adapter)())
    .build()
}

/** Without Express: to its router, what these make is no request of Node's. */
const WITHOUT_EXPRESS = ['node-mocks-http', 'fetch-to-node']

function appOf(middleware, endpoint) {
  if (!WITHOUT_EXPRESS.includes(name))
    return express()
      .set('env', 'test')
      .use('/mcp', middleware)
      .post('/mcp', express.json(), endpoint)
  return (req, res) => {
    const json = value => {
      res.writeHead(200, { 'content-type': 'application/json' })
      res.end(JSON.stringify(value))
    }
    middleware(req, res, () => endpoint(req, Object.assign(res, { json })))
  }
}

const outcomes = {}
for (const [kind, endpoint] of Object.entries(ENDPOINTS)) {
  const streams = mcpStreams({ upgradeAfter: 20, jsonKeepAlive: 20 })
  outcomes[kind] = {
    bare: await ADAPTERS[name](appOf((_req, _res, next) => next(), endpoint)),
    behind: await ADAPTERS[name](appOf(streams, endpoint))
  }
}
process.stdout.write(JSON.stringify(outcomes), () => process.exit())
