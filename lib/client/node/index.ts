// The client door for Node: what needs a file system.
export { saveResource, type SavedResource } from './save-resource.js'
