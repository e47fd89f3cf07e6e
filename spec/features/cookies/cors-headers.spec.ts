// `corsHeaders`: every header that our clients send and read stands in the lists, and `cors()`
// takes them as they are.

import { describe, expect, it } from '@jest/globals'
import cors from 'cors'
import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { corsHeaders } from '../../../lib/index.js'
import { callTool, post } from '../../helpers/mcp.js'
import { openStream } from '../../helpers/open-stream.js'
import { sayNews, serveCookies } from './setup.js'

/** [Fetch, CORS-safelisted request-header, forbidden request-header] */
const FREE_TO_SEND = ['accept', 'accept-encoding']
/**
 * [Fetch, CORS-safelisted response-header name]; what a browser follows by itself, and what no page
 * is ever shown.
 */
const FREE_TO_READ = ['content-type', 'location', 'cache-control', 'connection']

describe('corsHeaders', () => {
  it('has what the clients send and read', async () => {
    const source = await sourceOf('lib/client')
    const names = (pattern: RegExp): string[] =>
      [...source.matchAll(pattern)].map(([, name]) => name!.toLowerCase())
    const sent = [
      ...names(/headers\.set\('([^']+)'/g),
      ...names(
        /['"]((?:Accept|If|Mcp|MCP|Content-Type|Idempotency|Last-Event|Range)(?:-[\w-]+)?)['"]?\]?:/g
      )
    ]
    // What is asked of a request's headers has been put there by the official client.
    const read = names(/response\.headers\.(?:get|has)\('([^']+)'/g)
    const ofHead = [
      ...(await sourceOf('lib/client', 'stream-resource-head.ts')).matchAll(
        /headers\.get\('([^']+)'/g
      )
    ]
    const { allowedHeaders, exposedHeaders } = lowerCased()
    expect(sent).toContain('last-event-id')
    expect(read).toContain('link')
    expect(sent.filter(name => ![...allowedHeaders, ...FREE_TO_SEND].includes(name))).toEqual([])
    expect(
      [...read, ...ofHead.map(([, name]) => name!)].filter(
        name => ![...exposedHeaders, ...FREE_TO_READ].includes(name)
      )
    ).toEqual([])
  })

  it('has what the middleware reads of a request that a page can set', () => {
    const { allowedHeaders } = lowerCased()
    for (const name of [
      'authorization',
      'last-event-id',
      'prefer',
      'idempotency-key',
      'mcp-session-id',
      'mcp-protocol-version',
      'range',
      'if-range'
    ])
      expect(allowedHeaders).toContain(name)
  })

  it('is taken by cors()', async () => {
    const origin = 'https://app.example'
    const options = { origin, methods: ['GET', 'POST', 'DELETE'], ...corsHeaders }
    const { url } = await serveCookies(undefined, { script: sayNews, inFront: [cors(options)] })
    const preflight = await openStream(url, {
      method: 'OPTIONS',
      headers: {
        Origin: origin,
        'Access-Control-Request-Method': 'POST',
        'Access-Control-Request-Headers': 'prefer'
      }
    })
    expect(preflight.headers['access-control-allow-headers']).toBe(
      corsHeaders.allowedHeaders.join(',')
    )
    const answer = await post(url, callTool(1, 'x'), { Origin: origin })
    expect(answer.headers['access-control-expose-headers']).toBe(
      corsHeaders.exposedHeaders.join(',')
    )
  })

  it('cannot be changed by one for all', () => {
    expect(() => corsHeaders.allowedHeaders.push('X')).toThrow(TypeError)
    expect(() => corsHeaders.exposedHeaders.push('X')).toThrow(TypeError)
    expect(Object.isFrozen(corsHeaders)).toBe(true)
  })

  it('names each header once', () => {
    for (const names of Object.values(lowerCased())) expect(new Set(names).size).toBe(names.length)
  })
})

function lowerCased(): typeof corsHeaders {
  const lower = (names: string[]): string[] => names.map(name => name.toLowerCase())
  return {
    allowedHeaders: lower(corsHeaders.allowedHeaders),
    exposedHeaders: lower(corsHeaders.exposedHeaders)
  }
}

async function sourceOf(folder: string, only = ''): Promise<string> {
  const path = fileURLToPath(new URL(`../../../${folder}`, import.meta.url))
  const files = (await readdir(path)).filter(name => name.endsWith('.ts') && name.endsWith(only))
  return (await Promise.all(files.map(name => readFile(`${path}/${name}`, 'utf8')))).join('\n')
}
