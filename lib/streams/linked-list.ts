// A doubly linked list whose members hold the links, so that nothing is allocated.

/** It is in one list at a time. */
export class Member {
  earlier: Member | undefined
  later: Member | undefined
  list: LinkedList<Member> | undefined
}

export class LinkedList<T extends Member> {
  /** The member that was added before all others. */
  first: T | undefined
  /** The one that was added after all others. */
  last: T | undefined

  get isEmpty(): boolean {
    return this.first === undefined
  }

  /** Adds a member behind all others, and takes it out of the list in which it is. */
  add(member: T): void {
    if (this.last === member) return
    member.list?.delete(member)
    member.list = this
    const last = this.last
    member.earlier = last
    if (last === undefined) this.first = member
    else last.later = member
    this.last = member
  }

  /** Removes a member, which must be in this list. */
  delete(member: T): void {
    const { earlier, later } = member
    if (earlier === undefined) this.first = later as T | undefined
    else earlier.later = later
    if (later === undefined) this.last = earlier as T | undefined
    else later.earlier = earlier
    member.list = member.earlier = member.later = undefined
  }
}
