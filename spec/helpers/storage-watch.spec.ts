// What a spec file has kept in an AsyncLocalStorage does not outlast it.

import { describe, expect, it } from '@jest/globals'
import { AsyncLocalStorage } from 'node:async_hooks'
import { StorageWatch } from '../../.config/storage-watch.js'

const { run, enterWith } = AsyncLocalStorage.prototype

const watching = (): StorageWatch => {
  const watch = new StorageWatch()
  watch.watch()
  return watch
}

describe('a watch over storages', () => {
  it('ends one that was used by `run`', () => {
    const watch = watching()
    const storage = new AsyncLocalStorage<string>()
    storage.run('kept', () => {
      expect(storage.getStore()).toBe('kept')
      watch.end()
      expect(storage.getStore()).toBeUndefined()
    })
  })

  it('ends one that was used by `enterWith`', () => {
    const watch = watching()
    const storage = new AsyncLocalStorage<string>()
    storage.enterWith('kept')
    expect(storage.getStore()).toBe('kept')
    watch.end()
    expect(storage.getStore()).toBeUndefined()
  })

  it('leaves alone what was used before it began, and the methods as they were', () => {
    const storage = new AsyncLocalStorage<string>()
    storage.enterWith('kept')
    watching().end()
    expect(storage.getStore()).toBe('kept')
    storage.disable()
    expect(AsyncLocalStorage.prototype).toMatchObject({ run, enterWith })
  })
})
