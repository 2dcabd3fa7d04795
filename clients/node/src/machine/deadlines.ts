/** When to look at which entry: a binary heap whose entries know their place in it. */

/** What can be in a queue, in one at a time. */
export interface Scheduled {
  /** When it is due. Only the queue writes it. */
  due: number;
  /** The place in the queue; -1 outside. Only the queue writes it. */
  place: number;
}

/** Entries by the time at which they are due. */
export class Deadlines<T extends Scheduled> {
  readonly #heap: T[] = [];

  /** Adds an entry, or moves it to another time. */
  set(entry: T, due: number): void {
    entry.due = due;
    if (entry.place < 0) {
      entry.place = this.#heap.push(entry) - 1;
    }
    this.#down(this.#up(entry.place));
  }

  /** Removes an entry if it is there. */
  delete(entry: T): void {
    const { place } = entry;
    if (place < 0) {
      return;
    }
    entry.place = -1;
    const last = this.#heap.pop();
    if (last !== undefined && last !== entry) {
      this.#put(last, place);
      this.#down(this.#up(place));
    }
  }

  /** When the next entry is due. */
  next(): number | undefined {
    return this.#heap[0]?.due;
  }

  /** Removes and returns the next entry that is due. */
  popDue(now: number): T | undefined {
    const first = this.#heap[0];
    if (first === undefined || first.due > now) {
      return undefined;
    }
    this.delete(first);
    return first;
  }

  #up(place: number): number {
    for (;;) {
      const parent = (place - 1) >> 1;
      if (place === 0 || !this.#isBefore(place, parent)) {
        return place;
      }
      this.#swap(place, parent);
      place = parent;
    }
  }

  #down(place: number): void {
    for (;;) {
      let first = place;
      for (const child of [2 * place + 1, 2 * place + 2]) {
        if (child < this.#heap.length && this.#isBefore(child, first)) {
          first = child;
        }
      }
      if (first === place) {
        return;
      }
      this.#swap(place, first);
      place = first;
    }
  }

  #isBefore(one: number, other: number): boolean {
    return this.#at(one).due < this.#at(other).due;
  }

  #swap(one: number, other: number): void {
    const entry = this.#at(one);
    this.#put(this.#at(other), one);
    this.#put(entry, other);
  }

  #at(place: number): T {
    return this.#heap[place] as T;
  }

  #put(entry: T, place: number): void {
    this.#heap[place] = entry;
    entry.place = place;
  }
}
