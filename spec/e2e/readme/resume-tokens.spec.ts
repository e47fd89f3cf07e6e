// What the README says of resume tokens: its exchange is what happens on the wire, its tables name
// what exists.

import { afterEach, describe, expect, it } from '@jest/globals'
import { tokenFaultMessage, type ResumeTokenFault } from '../../../lib/calls/token-fault.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { closeAll } from '../../helpers/listen.js'
import { post } from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'
import { Compiler, plain } from './compiler.js'
import { Markdown, tablesOf } from './markdown.js'

afterEach(closeAll)

const SERVER = 'lib/index.ts'
const CLIENT = 'lib/client/index.ts'

const readme = new Markdown('README.md')
const section = readme.section('Resume tokens')
const compiler = new Compiler([], [SERVER, CLIENT])
const rowsOf = (column: string): string[][] =>
  tablesOf(section).find(({ columns }) => columns[0] === column)!.rows as string[][]

describe('the section on resume tokens', () => {
  it('names all reasons why a token is refused', () => {
    const reasons = rowsOf('Token').map(([reason]) => reason!.slice(1, -1))
    expect([...reasons].sort()).toEqual(compiler.words(SERVER, 'ResumeTokenFault'))
    for (const reason of reasons)
      expect(tokenFaultMessage(reason as ResumeTokenFault)).toMatch(
        /^Invalid params: The .*[a-z]$|^Invalid params: A /
      )
  })

  it('names all options of callResumable, and their types', () => {
    const declared = [...compiler.members(CLIENT, 'CallResumableOptions')].map(([name, type]) => [
      name,
      plain(type)
    ])
    expect(
      rowsOf('Option').map(([name, type]) => [name!.slice(1, -1), plain(type!.slice(1, -1))])
    ).toEqual(declared)
  })

  it('shows the exchange that happens on the wire', async () => {
    const [fence] = readme.fences.filter(
      ({ language, code }) => language === 'http' && code.includes('respond-async')
    )
    const code = fence!.code.replace(/ +# .*$/gm, '')
    const messages = [...code.matchAll(/^\{.*$/gm)].map(([json]) => JSON.parse(json))
    const heads = code.split('\n\n').filter(part => part.startsWith('HTTP/1.1'))
    const endpoint = rawEndpoint(() => undefined, { stateless: true })
    const { url } = await serve(endpoint)

    const first = await post(url, messages[0], { prefer: 'respond-async, wait=0' })
    const token = (await first.json()).result._meta.nextResumeToken
    const written = JSON.stringify(messages).replaceAll('fAkqoZtAFZyNYU4v3fFAs', token)
    const [, interim, resumed, last] = JSON.parse(written)
    expect(await first.json()).toEqual(interim)
    const second = post(url, resumed)
    const { res, message } = endpoint.calls[0]!
    res.setHeader('Content-Type', 'application/json')
    res.end(JSON.stringify({ ...last, id: message.id }))
    expect(await (await second).json()).toEqual(last)

    for (const [i, response] of [first, await second].entries())
      for (const [, name, value] of heads[i]!.matchAll(/^([\w-]+): (.*)$/gm))
        expect([name, response.headers[name!.toLowerCase()]]).toEqual([name, value])
    expect(code).toContain('Prefer: respond-async, wait=4')
  })
})
