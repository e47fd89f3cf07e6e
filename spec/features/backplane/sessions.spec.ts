import { afterEach, describe, expect, it } from '@jest/globals'
import { cluster } from '../../helpers/backplane/cluster.js'
import { connectV1 } from '../../helpers/clients.js'
import { closeAll } from '../../helpers/close-all.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'

afterEach(closeAll)

describe('stateful servers behind a round robin, with a backplane', () => {
  it('answer in a session that another instance has opened', async () => {
    const { url, members } = await cluster(() => sdkV1Stateful())
    const { client } = await connectV1(url)
    for (let i = 0; i < 6; i++) {
      const { tools } = await client.listTools()
      expect(tools.length).toBeGreaterThan(0)
    }
    expect(members.map(({ streams }) => streams.stats().backplane.forwarded)).toEqual(
      expect.arrayContaining([expect.any(Number)])
    )
  })
})
