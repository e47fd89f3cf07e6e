// Every byte of a call, under client 1.x.
import { describeEveryByte } from './every-byte.js'
import { V1 } from './setups.js'

describeEveryByte(V1)
