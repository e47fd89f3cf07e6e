// The central test under client 1.x. Where a setup has a share, the others of its kind have the
// rest: together, every byte.
import { describeEveryByte } from './client.js'
import { V1, V1_JUNE, V1_STATELESS } from '../../features/client/setups.js'

describeEveryByte(V1)
describeEveryByte(V1_JUNE, { rest: 0, of: 3 })
describeEveryByte(V1_STATELESS, { rest: 1, of: 3 })
