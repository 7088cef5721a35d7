"""Label sets of the large taxonomies, in a fixed order."""

from __future__ import annotations

BANKING77: tuple[str, ...] = tuple(
    """
    Refund_not_showing_up activate_my_card age_limit apple_pay_or_google_pay atm_support
    automatic_top_up balance_not_updated_after_bank_transfer
    balance_not_updated_after_cheque_or_cash_deposit beneficiary_not_allowed cancel_transfer
    card_about_to_expire card_acceptance card_arrival card_delivery_estimate card_linking
    card_not_working card_payment_fee_charged card_payment_not_recognised
    card_payment_wrong_exchange_rate card_swallowed cash_withdrawal_charge
    cash_withdrawal_not_recognised change_pin compromised_card contactless_not_working
    country_support declined_card_payment declined_cash_withdrawal declined_transfer
    direct_debit_payment_not_recognised disposable_card_limits edit_personal_details
    exchange_charge exchange_rate exchange_via_app extra_charge_on_statement failed_transfer
    fiat_currency_support get_disposable_virtual_card get_physical_card getting_spare_card
    getting_virtual_card lost_or_stolen_card lost_or_stolen_phone order_physical_card
    passcode_forgotten pending_card_payment pending_cash_withdrawal pending_top_up
    pending_transfer pin_blocked receiving_money request_refund reverted_card_payment?
    supported_cards_and_currencies terminate_account top_up_by_bank_transfer_charge
    top_up_by_card_charge top_up_by_cash_or_cheque top_up_failed top_up_limits top_up_reverted
    topping_up_by_card transaction_charged_twice transfer_fee_charged transfer_into_account
    transfer_not_received_by_recipient transfer_timing unable_to_verify_identity
    verify_my_identity verify_source_of_funds verify_top_up virtual_card_not_working
    visa_or_mastercard why_verify_identity wrong_amount_of_cash_received
    wrong_exchange_rate_for_cash_withdrawal
    """.split()
)
CLINC: tuple[str, ...] = tuple(
    """
    accept_reservations account_blocked alarm application_status apr are_you_a_bot balance
    bill_balance bill_due book_flight book_hotel calculator calendar calendar_update calories
    cancel cancel_reservation car_rental card_declined carry_on change_accent change_ai_name
    change_language change_speed change_user_name change_volume confirm_reservation cook_time
    credit_limit credit_limit_change credit_score current_location damaged_card date definition
    direct_deposit directions distance do_you_have_pets exchange_rate expiration_date find_phone
    flight_status flip_coin food_last freeze_account fun_fact gas gas_type goodbye greeting
    how_busy how_old_are_you improve_credit_score income ingredient_substitution ingredients_list
    insurance insurance_change interest_rate international_fees international_visa jump_start
    last_maintenance lost_luggage make_call maybe meal_suggestion meaning_of_life
    measurement_conversion meeting_schedule min_payment mpg new_card next_holiday next_song no
    nutrition_info oil_change_how oil_change_when oos order order_checks order_status pay_bill
    payday pin_change play_music plug_type pto_balance pto_request pto_request_status pto_used
    recipe redeem_rewards reminder reminder_update repeat replacement_card_duration report_fraud
    report_lost_card reset_settings restaurant_reservation restaurant_reviews
    restaurant_suggestion rewards_balance roll_dice rollover_401k routing schedule_maintenance
    schedule_meeting share_location shopping_list shopping_list_update smart_home spelling
    spending_history sync_device taxes tell_joke text thank_you time timer timezone tire_change
    tire_pressure todo_list todo_list_update traffic transactions transfer translate travel_alert
    travel_notification travel_suggestion uber update_playlist user_name vaccines w2 weather
    what_are_your_hobbies what_can_i_ask_you what_is_your_name what_song where_are_you_from
    whisper_mode who_do_you_work_for who_made_you yes
    """.split()
)
GOEMOTIONS: tuple[str, ...] = tuple(
    """
    admiration amusement anger annoyance approval caring confusion curiosity desire
    disappointment disapproval disgust embarrassment excitement fear gratitude grief joy love
    nervousness neutral optimism pride realization relief remorse sadness surprise
    """.split()
)
CLINC_DOMAINS: dict[str, frozenset[str]] = {
    "banking": frozenset(
        """
        account_blocked balance bill_balance bill_due freeze_account interest_rate min_payment
        order_checks pay_bill pin_change report_fraud routing spending_history transactions
        transfer
        """.split()
    ),
    "credit_cards": frozenset(
        """
        apr application_status card_declined credit_limit credit_limit_change credit_score
        damaged_card expiration_date improve_credit_score international_fees new_card
        redeem_rewards replacement_card_duration report_lost_card rewards_balance
        """.split()
    ),
    "kitchen_and_dining": frozenset(
        """
        accept_reservations calories cancel_reservation confirm_reservation cook_time food_last
        how_busy ingredient_substitution ingredients_list meal_suggestion nutrition_info recipe
        restaurant_reservation restaurant_reviews restaurant_suggestion
        """.split()
    ),
    "home": frozenset(
        """
        calendar calendar_update next_song order order_status play_music reminder
        reminder_update shopping_list shopping_list_update smart_home todo_list
        todo_list_update update_playlist what_song
        """.split()
    ),
    "auto_and_commute": frozenset(
        """
        current_location directions distance gas gas_type jump_start last_maintenance mpg
        oil_change_how oil_change_when schedule_maintenance tire_change tire_pressure traffic
        uber
        """.split()
    ),
    "travel": frozenset(
        """
        book_flight book_hotel car_rental carry_on exchange_rate flight_status
        international_visa lost_luggage plug_type timezone translate travel_alert
        travel_notification travel_suggestion vaccines
        """.split()
    ),
    "utility": frozenset(
        """
        alarm calculator date definition find_phone flip_coin make_call measurement_conversion
        roll_dice share_location spelling text time timer weather
        """.split()
    ),
    "work": frozenset(
        """
        direct_deposit income insurance insurance_change meeting_schedule next_holiday payday
        pto_balance pto_request pto_request_status pto_used rollover_401k schedule_meeting
        taxes w2
        """.split()
    ),
    "small_talk": frozenset(
        """
        are_you_a_bot do_you_have_pets fun_fact goodbye greeting how_old_are_you
        meaning_of_life tell_joke thank_you what_are_your_hobbies what_can_i_ask_you
        what_is_your_name where_are_you_from who_do_you_work_for who_made_you
        """.split()
    ),
    "meta": frozenset(
        """
        cancel change_accent change_ai_name change_language change_speed change_user_name
        change_volume maybe no repeat reset_settings sync_device user_name whisper_mode yes
        """.split()
    ),
}
DOMAIN_TEXTS: dict[str, str] = {
    "banking": "Bank accounts, bills, transfers, fraud and transactions.",
    "credit_cards": "Credit cards, their limits, rewards and applications.",
    "kitchen_and_dining": "Recipes, ingredients, calories and restaurants.",
    "home": "Music, lists, reminders, orders, the calendar and smart devices at home.",
    "auto_and_commute": "Cars, fuel, maintenance, routes and traffic.",
    "travel": "Flights, hotels, visas, luggage, translation and trip advice.",
    "utility": "Alarms, timers, time, date, weather, sums, calls and definitions.",
    "work": "Pay, leave, meetings, taxes and benefits.",
    "small_talk": "Greetings, jokes and questions about the assistant itself.",
    "meta": "The assistant's own settings, and short replies such as yes, no, cancel or repeat.",
}
