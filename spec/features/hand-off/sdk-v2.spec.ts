// The official SDK's endpoint, version 2, unchanged: what its tool asks on the stream of its call
// is handed off.

import { expect, it } from '@jest/globals'
import type { ServerContext } from '@modelcontextprotocol/server'
import { sdkV2Stateful } from '../../helpers/endpoints/sdk-v2.js'
import { callTool, initializeSession } from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'
import { ANNOUNCED, QUICK } from './asking.js'
import { outcomeOf, reply } from './sdk-v1.js'
import { SepClient } from './sep-client.js'

const requestedSchema = {
  type: 'object' as const,
  properties: { name: { type: 'string' as const } }
}

it('a tool that asks once, and then twice at once, is answered in two turns', async () => {
  const endpoint = sdkV2Stateful({
    onContext: async (_args, context) => {
      const { mcpReq } = context as ServerContext
      const ask = async (message: string) =>
        (await mcpReq.elicitInput({ message, requestedSchema }, { relatedRequestId: mcpReq.id }))
          .content?.['name']
      return [await ask('first'), await Promise.all([ask('second'), ask('third')])]
    }
  })
  const { url } = await serve(endpoint, QUICK)
  const { headers } = await initializeSession(url, '2025-11-25', ANNOUNCED, {
    elicitation: { form: {} }
  })
  const client = new SepClient(url, { headers, answer: reply })
  const { response, trace } = await client.call(callTool(1, 'context', { args: {} }))
  expect(outcomeOf(response.result)).toEqual(['first', ['second', 'third']])
  expect(trace).toEqual(['call 200', 'GET 204', 'answers 200', 'GET 204', 'answers 200'])
})
