@file:JvmName("Kitchen")

package org.example.kitchen

import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.map as mapFlow
import org.example.pantry.*

const val MAX_COOKS = 4
private val log = Logger.get("kitchen")
var open: Boolean = false
    private set

typealias Recipe = (List<Food>) -> Dish

interface Cook : Named, Closeable {
    val name: String
    fun cook(recipe: Recipe): Dish
    fun rest() {}
}

enum class Heat(val degrees: Int) : Ordered {
    LOW(90),
    HIGH(220) {
        override fun burns() = true
    };

    open fun burns(): Boolean = degrees > LIMIT

    companion object {
        const val LIMIT = 200
        fun of(degrees: Int): Heat = entries.first { it.degrees >= degrees }
    }
}

data class Dish(val title: String, var portions: Int = 2, note: String? = null)
class Empty
object Menu : Registry<Dish>() { val dishes = mutableListOf<Dish>() }
sealed class Event { data object Done : Event(); class Failed(val cause: Throwable) : Event() }

@Service
@Suppress("unused")
open class Chef<T : Food>(
    private val pantry: Pantry<T>,
    helper: Cook,
) : Person(helper.name), Cook by helper {
    private val orders by lazy { Queue<Order>() }
    lateinit var station: Station

    init {
        register(this)
    }

    constructor(pantry: Pantry<T>) : this(pantry, Novice())

    @Deprecated("slow")
    override fun cook(recipe: Recipe): Dish {
        val food = pantry.take(MAX_COOKS).filter { it.isFresh() }.map(::wash)
        val dish = recipe(food)
        fun plate(dish: Dish): Dish = dish.copy(portions = food.size)
        val listener = object : Listener {
            override fun onDone(event: Event) { notify(event) }
        }
        station.listen(listener)
        when (dish) {
            is Dish -> plate(dish)
            in Menu.dishes -> throw KitchenException("known: ${dish.title.trim()}")
        }
        return dish as? Dish ?: Dish("nothing")
    }

    suspend fun <R> serve(guests: Flow<Guest>, block: suspend (Guest) -> R): Flow<R> =
        guests.mapFlow { guest -> block(guest) }

    private val Food.calories: Int
        get() = weight * density(this)

    companion object Factory {
        @JvmStatic fun create(): Chef<Food> = Chef(Pantry.default())
    }
}

fun String.toHeat(): Heat? = Heat.valueOf(uppercase())

inline fun <reified T> Chef<*>.find(): T? = orders.filterIsInstance<T>().firstOrNull()

fun main() = runBlocking { Chef.create().cook { Dish("soup") } }
