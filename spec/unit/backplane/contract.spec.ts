import { describeBackplane } from '../../helpers/backplane/contract.js'
import { Hub } from '../../helpers/backplane/memory.js'

describeBackplane('one in memory', {
  join: async () => {
    const hub = new Hub()
    return [hub.join(), hub.join()]
  }
})

describeBackplane('one in memory that loses, doubles and reorders', {
  isFlaky: true,
  join: async () => {
    const hub = new Hub({ drops: 0.3, doubles: 0.2, reorders: 0.3, seed: 7 })
    return [hub.join(), hub.join()]
  }
})
