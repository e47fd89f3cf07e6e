// Ends what a spec file has kept in an AsyncLocalStorage.
//
// Until version 24, Node keeps a list of all that have ever been used, and goes through it for each
// promise and each handle that is made. Jest makes one per spec file, and so does the library in
// each registry of modules: after a hundred files, an `await` takes a hundred times as long.
import { AsyncLocalStorage } from 'node:async_hooks'

const { run, enterWith } = AsyncLocalStorage.prototype

export class StorageWatch {
  #used = new Set()

  watch() {
    const used = this.#used
    Object.assign(AsyncLocalStorage.prototype, {
      run(...args) {
        used.add(this)
        return run.apply(this, args)
      },
      enterWith(...args) {
        used.add(this)
        return enterWith.apply(this, args)
      }
    })
  }

  end() {
    Object.assign(AsyncLocalStorage.prototype, { run, enterWith })
    for (const storage of this.#used) storage.disable()
    this.#used.clear()
  }
}
