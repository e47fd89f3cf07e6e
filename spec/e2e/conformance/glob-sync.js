// Preload for Node 20: the suite's CLI imports `globSync` from `fs` by name, which Node has from 22
// on; without it nothing links.
import * as fs from 'node:fs'
import { register } from 'node:module'

if (!('globSync' in fs)) register('./glob-sync-hooks.js', import.meta.url)
