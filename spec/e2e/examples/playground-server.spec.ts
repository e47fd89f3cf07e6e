// What the playground serves and to whom, and its command line.

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { once } from 'node:events'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { closeLater } from '../../helpers/listen.js'
import { play, type Playground } from './playground.js'

let playground: Playground
beforeAll(async () => {
  playground = await play()
})
afterAll(() => playground.close())

describe('the server of the playground', () => {
  interface Answer {
    status: number | undefined
    headers: Record<string, string | string[] | undefined>
    body: string
  }

  /** As it is written: `fetch` would tidy the path up. */
  function ask(path: string, { method = 'GET', headers = {} } = {}): Promise<Answer> {
    const { hostname, port } = new URL(playground.url)
    return new Promise((resolve, reject) => {
      const sent = request(
        { hostname, port, path, method, headers: { Connection: 'close', ...headers } },
        res => {
          let body = ''
          res.setEncoding('utf8').on('data', chunk => (body += chunk))
          res.on('end', () => resolve({ status: res.statusCode, headers: res.headers, body }))
        }
      )
      sent.on('error', reject).end()
    })
  }

  it('lets no script in but its own', async () => {
    const { status, headers, body } = await ask('/')
    expect(status).toBe(200)
    const policy = headers['content-security-policy'] as string
    expect(policy).toMatch(/^default-src 'none'; script-src 'self'; style-src 'self'; /)
    expect(policy).not.toContain('unsafe')
    expect(headers['x-content-type-options']).toBe('nosniff')
    expect(body.match(/<script/g)).toHaveLength(1)
    expect(body).not.toMatch(/<script(?![^>]* src=)|style=|\son\w+=/)
  })

  it.each([
    ...[
      '/../package.json',
      '/..%2fpackage.json',
      '/%2e%2e/package.json',
      '//etc/passwd',
      '/client.js/../../package.json'
    ],
    ...['/index.js', '/server.js', '/chunk-NONE.js', '/cut/FIN', '/__proto__', '/toString', '*']
  ])('has no %s', async path => {
    expect(await ask(path)).toMatchObject({ status: 404, body: 'Not found\n' })
  })

  it('answers to its own name and its own page only', async () => {
    expect(await ask('/', { headers: { Host: 'evil.example' } })).toMatchObject({ status: 403 })
    const foreign = { method: 'POST', headers: { Origin: 'http://evil.example' } }
    expect(await ask('/cut/outage', foreign)).toMatchObject({ status: 403 })
    const { port } = new URL(playground.url)
    const moved = await ask('/', { headers: { Host: `localhost:${port}` } })
    expect(moved).toMatchObject({ status: 307, headers: { location: playground.url } })
    const { endpoints } = JSON.parse((await ask('/setup')).body) as {
      endpoints: Record<string, string>
    }
    for (const url of Object.values(endpoints)) {
      const response = await fetch(url, {
        method: 'POST',
        headers: { Origin: 'http://evil.example' }
      })
      expect(response.headers.get('access-control-allow-origin')).not.toBe('http://evil.example')
      await response.text()
    }
  })
})

describe('the command line of the playground', () => {
  it.each([
    ['playground', []],
    ['quick-start', ['--open']]
  ])('opens the page where it is asked to, and ends with a signal: %s', async (script, more) => {
    const folder = await mkdtemp(join(tmpdir(), 'playground-'))
    const remove = closeLater(() => rm(folder, { recursive: true }))
    const opened = join(folder, 'opened')
    for (const name of ['xdg-open', 'open']) {
      await writeFile(
        join(folder, name),
        `#!/bin/sh\necho "$1" > ${opened}.new && mv ${opened}.new ${opened}\n`
      )
      await chmod(join(folder, name), 0o755)
    }
    const args = more.length > 0 ? more : ['--open']
    const { url, child } = await play(args, { PATH: `${folder}:${process.env['PATH']}` }, script)
    const patience = Date.now() + 25_000
    let text: string | undefined
    while (text === undefined && Date.now() < patience)
      text = await readFile(opened, 'utf8').catch(
        () => new Promise(resolve => setTimeout(resolve, 20, undefined))
      )
    expect(text).toBe(`${url}\n`)
    const exited = once(child, 'exit')
    child.kill('SIGINT')
    expect(await exited).toEqual([0, null])
    await remove()
  })
})
