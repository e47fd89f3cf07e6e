// The directory of several instances: what it shares with that of one, and what it costs.
import { afterEach, describe, expect, it } from '@jest/globals'
import { SharedDirectory } from '../../../lib/backplane/directory.js'
import { InstanceLink } from '../../../lib/backplane/instance-link.js'
import type { Backplane, BackplaneCommand } from '../../../lib/backplane/types.js'
import { LocalDirectory, UNKNOWN } from '../../../lib/streams/directory.js'
import { Hub } from '../../helpers/backplane/memory.js'
import {
  type ContractShelves,
  describeDirectory,
  type DirectoryMember
} from '../../helpers/directory-contract.js'

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
      lapsed: () => undefined,
      changed: state => (state === 'up' ? resolve(link) : undefined),
      report: reject
    })
    links.push(link)
  })
}

async function memberOn(
  backplane: Backplane,
  here: ContractShelves,
  forwardsSessions = true
): Promise<DirectoryMember> {
  const link = await linkOn(backplane)
  const settings = { forwardsSessions, keyTime: 60_000 }
  const directory = new SharedDirectory(new LocalDirectory(here), link, settings)
  return {
    directory,
    newId: link.newId,
    sessionOpened: id => directory.sessionOpened(id, 'alice'),
    sessionEnded: directory.sessionEnded,
    leave: () => link.close()
  }
}

const EMPTY: ContractShelves = { stream: () => UNKNOWN, ticket: () => UNKNOWN }

describeDirectory(
  'that of a backplane',
  async shelves => {
    const hub = new Hub()
    return Promise.all(shelves.map(here => memberOn(hub.join(), here)))
  },
  { members: 2 }
)

describe('the directory of several instances', () => {
  it('asks nobody about ids of its own, and once about a session that nobody has', async () => {
    const hub = new Hub()
    const { directory, newId } = await memberOn(hub.join(), EMPTY)
    // Signs of life are given by a clock, whatever is looked for.
    const asked = (): number => hub.commands.filter(name => name === 'GET').length
    const before = asked()
    for (let i = 0; i < 100; i++) await directory.find('stream', newId())
    expect(asked()).toBe(before)
    await directory.where('session', 'of nobody')
    const once = asked()
    expect(once).toBeGreaterThan(before)
    expect(directory.where('session', 'of nobody')).toEqual({ kind: 'here' })
    expect(asked()).toBe(once)
  })

  it('asks nobody about a key or a session that is here', async () => {
    const hub = new Hub()
    const { directory, sessionOpened } = await memberOn(hub.join(), EMPTY)
    expect(await directory.claim('a key', 'alice')).toEqual({ kind: 'here' })
    sessionOpened('a session')
    hub.commands.length = 0
    expect(directory.where('key', 'a key')).toEqual({ kind: 'here' })
    expect(directory.claim('a key', 'alice')).toEqual({ kind: 'here' })
    expect(directory.where('session', 'a session')).toEqual({ kind: 'here' })
    expect(hub.commands.filter(name => name === 'GET')).toEqual([])
  })

  it('neither shares sessions nor looks for them where they are not forwarded', async () => {
    const hub = new Hub()
    const { directory, sessionOpened } = await memberOn(hub.join(), EMPTY, false)
    const other = await memberOn(hub.join(), EMPTY)
    sessionOpened('its own')
    other.sessionOpened('elsewhere')
    expect(directory.where('session', 'elsewhere')).toEqual({ kind: 'here' })
    expect(await other.directory.where('session', 'its own')).toEqual({ kind: 'here' })
  })

  it('finds a session that has just been opened, over a connection that is not slow yet', async () => {
    const hub = new Hub({ lease: 6000 })
    const owners = hub.join()
    const owner = await memberOn(owners, EMPTY)
    const { directory } = await memberOn(hub.join(), EMPTY)
    const command = owners.command.bind(owners)
    owners.command = async one => {
      await new Promise(resolve => setTimeout(resolve, 250))
      return command(one)
    }
    owner.sessionOpened('just now')
    expect(await directory.where('session', 'just now')).toMatchObject({ kind: 'remote' })
  })

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

  it('says that what is shared is out of reach, once it has been asked for long enough', async () => {
    const hub = new Hub({ lease: 60 })
    const backplane = hub.join()
    const { directory } = await memberOn(backplane, EMPTY)
    backplane.isUp = false
    expect(await directory.where('session', 'anybodys')).toEqual({ kind: 'unreachable' })
    expect(await directory.claim('a key', 'alice')).toEqual({ kind: 'unreachable' })
  })

  it('has what it waited for once there is a connection again', async () => {
    const hub = new Hub({ lease: 600 })
    const [backplane, others] = [hub.join(), hub.join()]
    const { directory } = await memberOn(backplane, EMPTY)
    const other = await memberOn(others, EMPTY)
    other.sessionOpened('elsewhere')
    backplane.isUp = false
    const found = directory.where('session', 'elsewhere')
    backplane.isUp = true
    expect(await found).toMatchObject({ kind: 'remote' })
  })
})
