// The directory of several instances: what it shares with that of one, and that no key is had twice.
import { afterEach, describe, expect, it } from '@jest/globals'
import { SharedDirectory } from '../../../lib/backplane/directory.js'
import { InstanceLink } from '../../../lib/backplane/instance-link.js'
import type { Backplane, BackplaneCommand } from '../../../lib/backplane/types.js'
import { LocalDirectory, type LookUps, UNKNOWN } from '../../../lib/streams/directory.js'
import { Hub } from '../../helpers/backplane/memory.js'
import { describeDirectory, type DirectoryMember } from '../../helpers/directory-contract.js'

const links: InstanceLink[] = []
afterEach(async () => {
  for (const link of links.splice(0)) await link.close()
})

async function linkOn(backplane: Backplane): Promise<InstanceLink> {
  return new Promise((resolve, reject) => {
    const link = new InstanceLink(backplane, {
      maxEntries: 100,
      resultTime: 1000,
      accept: () => undefined,
      leaseExpired: () => undefined,
      changed: state => (state === 'up' ? resolve(link) : undefined),
      report: reject
    })
    links.push(link)
  })
}

async function memberOn(backplane: Backplane, here: LookUps): Promise<DirectoryMember> {
  const link = await linkOn(backplane)
  const settings = { forwardsSessions: true, keyTime: 60_000, mayBeRevived: () => false }
  const directory = new SharedDirectory(new LocalDirectory(here), link, settings)
  return {
    directory,
    newId: link.newId,
    sessionOpened: id => directory.sessionOpened(id, 'alice'),
    sessionEnded: directory.sessionEnded,
    leave: () => link.close()
  }
}

const EMPTY: LookUps = { stream: () => UNKNOWN, ticket: () => UNKNOWN }

describeDirectory(
  'that of a backplane',
  async lookUps => {
    const hub = new Hub()
    return Promise.all(lookUps.map(here => memberOn(hub.join(), here)))
  },
  { members: 2 }
)

describe('the directory of several instances', () => {
  it('leaves a key to who writes it again while it is claimed', async () => {
    const hub = new Hub({ lease: 200 })
    const [backplane, owners] = [hub.join(), hub.join()]
    const { directory } = await memberOn(backplane, EMPTY)
    const owner = await memberOn(owners, EMPTY)
    await owner.directory.claim('a key', 'alice')
    const [name, value] = [...hub.keys].find(([key]) => key.startsWith('k:'))!
    hub.flush()
    // The owner writes it once, just behind the other one's claim.
    const writes = (one: BackplaneCommand): boolean => one[0] === 'SET' && one[1] === name
    const [command, ownersCommand] = [backplane, owners].map(one => one.command.bind(one))
    owners.command = async one => (writes(one) ? 'OK' : ownersCommand!(one))
    let isWritten = false
    backplane.command = async one => {
      const answer = await command!(one)
      if (writes(one) && !isWritten) hub.keys.set(name, value)
      isWritten ||= writes(one)
      return answer
    }
    expect(await directory.claim('a key', 'alice')).toMatchObject({ kind: 'remote' })
  })

  it('does not take a key whose claim is flushed on the way to it', async () => {
    const hub = new Hub({ lease: 200 })
    const backplane = hub.join()
    const { directory } = await memberOn(backplane, EMPTY)
    const owner = await memberOn(hub.join(), EMPTY)
    await owner.directory.claim('a key', 'alice')
    const command = backplane.command.bind(backplane)
    let isFlushed = false
    backplane.command = async one => {
      if (one[0] === 'SET' && one[1].startsWith('k:') && !isFlushed) {
        isFlushed = true
        hub.flush()
      }
      return command(one)
    }
    expect(await directory.claim('a key', 'alice')).toMatchObject({ kind: 'remote' })
  })
})
