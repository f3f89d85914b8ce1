package org.example.loom

import scala.collection.mutable
import scala.concurrent.{ExecutionContext, Future => Later}
import org.example.yarn._
import org.example.dye.*
import org.example.wool.Sheep as Animal

trait Weaver[T <: Thread] extends Named with Closeable {
  type Cloth
  val speed: Int
  def weave(threads: Seq[T]): Cloth
  def stop(): Unit = println("stop")
}

sealed trait Pattern
case object Plain extends Pattern
final case class Twill(width: Int, angle: Double = 45.0) extends Pattern with Sized[Int]

enum Colour(val rgb: Int):
  case Red extends Colour(0xff0000)
  case Blue extends Colour(0x0000ff)
  def mix(other: Colour): Colour = Colour.of(rgb | other.rgb)

@deprecated("old", "1.0")
class Loom[T <: Thread](val name: String, var width: Int = 10)(implicit ec: ExecutionContext)
    extends Machine(name)
    with Weaver[T] {
  import Loom._

  private val spools = mutable.Map.empty[String, Spool]
  lazy val (left, right) = sides()
  var count: Int = 0

  @tailrec
  override def weave(threads: Seq[T]): Cloth = {
    val sorted = threads.sortBy(_.weight).map(thread => thread.twist(Tightness))
    def row(thread: T): Row = Row(thread, width)
    sorted match {
      case Seq() => throw new EmptyLoomException("empty")
      case first +: _ if first.isLong => finish(row(first))
      case Twill(w, _) => Cloth.of[T](w)
    }
    for {
      thread <- sorted
      spool <- spools.get(thread.name)
    } yield spool.take(thread)
    Later(count + 1).foreach(report)
    new Cloth(sorted) with Dyed { def colour = Colour.Red }
  }

  private def report(n: Int): Unit = logger.info(s"$n rows, ${describe(n)}")
}

object Loom {
  val Tightness = 3
  implicit val ordering: Ordering[Loom[_]] = Ordering.by(_.name)
  def apply[T <: Thread](name: String): Loom[T] = new Loom[T](name)
  implicit class RichLoom(loom: Loom[_]) {
    def +(other: Loom[_]): Int = loom.width + other.width
  }
}

given colourOrder: Ordering[Colour] with
  def compare(a: Colour, b: Colour): Int = a.rgb - b.rgb

extension (cloth: Cloth)
  def fold(times: Int): Cloth = cloth.halve.fold(times - 1)

type Cloths = List[Cloth]

object Main extends App {
  val loom = Loom[Wool]("first")
  loom.weave(Nil)
  loom + Loom("second")
}
