// The central test under client 2.x; the share of the older revision is what `every-byte-v1` leaves
// to it.
import { describeEveryByte } from './client.js'
import { V2, V2_MODERN } from '../../features/client/setups.js'

describeEveryByte(V2_MODERN)
describeEveryByte(V2, { rest: 2, of: 3 })
