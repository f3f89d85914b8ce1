import { type FC, type ReactNode, memo, useCallback } from 'react'
import { Button } from '@app/ui'
import styles from './list.module.css'

interface Props<T> {
  items: T[]
  render: (item: T) => ReactNode
  onPick?: Picker<T>
}

type Picker<T> = (item: T) => void

export const EMPTY: Item[] = []

export function List<T extends { id: string }>({ items, render, onPick }: Props<T>): JSX.Element {
  const pick = useCallback((item: T) => onPick?.(item), [onPick])
  if (items.length === 0) return <Empty icon={EmptyIcon} />
  return (
    <>
      <ul className={styles.list}>
        {items.map((item) => (
          <li key={item.id} onClick={() => pick(item)}>
            {render(item)}
          </li>
        ))}
      </ul>
      <Menu.Item<string> onSelect={handleSelect}>more</Menu.Item>
    </>
  )
}

const Row: FC<Props<Item>> = ({ items }) => {
  const count = items.length
  return <Button label={String(count)} />
}

export default memo(Row)

class Board extends React.Component<Props<Item>, State> {
  state: State = { open: false }

  handle = (event: Event): void => {
    this.setState({ open: true })
  }

  render() {
    return <List items={EMPTY} render={renderItem} />
  }
}

function renderItem(item: Item): ReactNode {
  return format(item)
}
