// Every endpoint, in every framework, mounted in every way, wherever the body is parsed: a cut call
// goes on by its stream URL.

import { describe, expect, it } from '@jest/globals'
import { createMcpExpressApp as createAppV2 } from '@modelcontextprotocol/express'
import { createMcpExpressApp as createAppV1 } from '@modelcontextprotocol/sdk/server/express.js'
import express from 'express'
import express4 from 'express4'
import type { Json } from '../../helpers/open-stream.js'
import { runBare, runWithCut } from './cut-and-resume.js'
import { type EndpointName, ENDPOINTS } from './endpoints.js'
import {
  createStreams,
  type Framework,
  FRAMEWORKS,
  type Middleware,
  type Mount
} from './frameworks.js'

const JSON_PARSERS = ['before', 'after', 'absent'] as const
const jsonParserOf = (framework: Framework): Middleware =>
  (framework === 'Express 4' ? express4 : express).json() as Middleware

/** The applications that the SDKs make have express.json() in front of everything. */
const sdkApps: [string, Mount][] = [
  ['SDK v1', chain => createAppV1().use('/mcp', ...chain)],
  ['SDK v2', chain => createAppV2().use('/mcp', ...chain)]
]

const mountings = Object.entries(FRAMEWORKS).flatMap(([framework, ways]) =>
  Object.entries(ways as Record<string, Mount>).flatMap(([way, mount]) =>
    JSON_PARSERS.map(place => [framework as Framework, way, place, mount] as const)
  )
)

describe.each(Object.keys(ENDPOINTS) as EndpointName[])('%s', name => {
  const kind = ENDPOINTS[name]
  let bare: Promise<Json[]> | undefined

  it.each(mountings)('on %s by %s, express.json() %s', async (framework, _way, place, mount) => {
    bare ??= runBare(kind, ...chainOf(FRAMEWORKS['node:http']['a chain of its own'], []))
    const json = jsonParserOf(framework)
    const streams = createStreams()
    const chain = { before: [json, streams], after: [streams, json], absent: [streams] }[place]
    const { uncut, resumed } = await runWithCut(kind, ...chainOf(mount, chain))
    expect(uncut).toHaveLength(4)
    expect(uncut).toEqual(await bare)
    expect(resumed).toEqual(uncut)
  })

  it.each(sdkApps)('on createMcpExpressApp() of %s', async (_sdk, mount) => {
    const { uncut, resumed } = await runWithCut(kind, ...chainOf(mount, [createStreams()]))
    expect(uncut).toHaveLength(4)
    expect(resumed).toEqual(uncut)
  })

  function chainOf(mount: Mount, chain: Middleware[]) {
    const endpoint = kind.create()
    return [mount([...chain, endpoint]), endpoint] as const
  }
})
