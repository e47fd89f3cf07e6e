import { nanoid } from 'nanoid'
import { LocalDirectory } from '../../../lib/streams/directory.js'
import { describeDirectory } from '../../helpers/directory-contract.js'

describeDirectory(
  'that of one process',
  async lookUps =>
    lookUps.map(here => ({
      directory: new LocalDirectory(here),
      newId: () => nanoid(),
      sessionOpened: () => undefined,
      sessionEnded: () => undefined,
      leave: async () => undefined
    })),
  { members: 1 }
)
