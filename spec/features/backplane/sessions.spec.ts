import { describe, expect, it } from '@jest/globals'
import { cluster } from '../../helpers/backplane/cluster.js'
import { connectV1, connectV2 } from '../../helpers/clients.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { sdkV2Stateful } from '../../helpers/endpoints/sdk-v2.js'

const onElicit = () => ({ action: 'accept' as const, content: { answer: 'me' } })

const kinds = [
  {
    sdk: '1',
    serve: () => sdkV1Stateful(),
    connect: (url: string) => connectV1(url, { onElicit })
  },
  {
    sdk: '2',
    serve: () => sdkV2Stateful(),
    connect: (url: string) => connectV2(url, { era: '2025-11-25', onElicit })
  }
]

describe.each(kinds)(
  'stateful servers of SDK $sdk behind a round robin, with a backplane',
  ({ serve, connect }) => {
    it('answer in a session that another instance has opened', async () => {
      const endpoints: { sessions: Map<string, unknown> }[] = []
      const { url } = await cluster(() => {
        const endpoint = serve()
        endpoints.push(endpoint)
        return endpoint
      })
      const { client } = await connect(url)
      for (let i = 0; i < 6; i++) expect((await client.listTools()).tools.length).toBeGreaterThan(0)
      expect(endpoints.map(({ sessions }) => sessions.size).sort()).toEqual([0, 0, 1])
    })

    it('ask their client, whichever instance the answer comes to', async () => {
      const { url } = await cluster(serve)
      const { client } = await connect(url)
      for (let i = 0; i < 3; i++) {
        const { content } = (await client.callTool({
          name: 'elicit',
          arguments: { message: 'Who?' }
        })) as { content: unknown }
        expect(JSON.stringify(content)).toContain('me')
      }
    })
  }
)
